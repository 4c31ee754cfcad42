// registers: the row is kept in registers while its largest magnitude is found: each element is read once, 16 bytes per
// load.
//
// Against naive, THREADS threads have a whole row in registers, VECTORS vectors of eight elements each, all loaded
// before the first is used, and a thread stores the codes of a vector as 8 bytes. A row that fits in one warp needs no
// barrier. Expect the roof: two of three bytes moved are reads here, while in a copy one of two is.

#include "codes.cuh"

#ifndef KIND
#define KIND E4m3
#endif
#ifndef THREADS
#define THREADS 128
#endif
#ifndef VECTORS
#define VECTORS 1
#endif
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1  // resident on an SM
#endif

static_assert(THREADS % 32 == 0, "a row takes whole warps");

extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS)
    registers(unsigned char* __restrict__ codes, float* __restrict__ scales, const bfloat16* __restrict__ in, int rows,
              int n) {
    __shared__ float of_warps[BLOCK / 32];
    const int row = blockIdx.x * (BLOCK / THREADS) + threadIdx.x / THREADS;
    const int length = row < rows ? n : 0;  // all lanes of a warp take part in its shuffles
    const int first = threadIdx.x % THREADS * 8;
    in += static_cast<size_t>(row) * n;
    codes += static_cast<size_t>(row) * n;
    uint4 held[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        held[k] = load_vector(in, first + k * THREADS * 8, length);
    }
    float largest = 0.0f;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        largest = fmaxf(largest, largest_of(held[k]));
    }
    keep_packed(held);
    largest = largest_lane<32>(largest);
    if constexpr (THREADS > 32) {
        if (threadIdx.x % 32 == 0) {
            of_warps[threadIdx.x / 32] = largest;
        }
        __syncthreads();
        largest = largest_lane<THREADS / 32>(of_warps[threadIdx.x % (THREADS / 32)]);
    }
    const Scaling scaling = scaling_of<KIND>(largest);
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        store_codes<KIND>(codes, held[k], scaling.inverse, first + k * THREADS * 8, length);
    }
    if (first == 0 && row < rows) {
        scales[row] = scaling.scale;
    }
}
