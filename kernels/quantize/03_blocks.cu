// blocks: a scale for each 128 elements of a row, found by 16 lanes.
//
// Against registers an outlier spoils 128 elements, not a row, and nobody waits for anybody outside its half of a warp:
// no barrier, no limit to the length of a row. A thread has VECTORS vectors under way, each of another group. The scales are 4 bytes for 128 elements more.
// Expect the roof again.

#include "codes.cuh"

#ifndef KIND
#define KIND E4m3
#endif
#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef VECTORS
#define VECTORS 2
#endif

constexpr int ELEMENTS = 128;  // with one scale
constexpr int LANES = ELEMENTS / 8;

extern "C" __global__ void __launch_bounds__(BLOCK, 2048 / BLOCK)
    blocks(unsigned char* __restrict__ codes, float* __restrict__ scales, const bfloat16* __restrict__ in, int rows, int n) {
    const unsigned in_row = (n + ELEMENTS - 1) / ELEMENTS;
    const unsigned first_group = blockIdx.x * (BLOCK / LANES * VECTORS) + threadIdx.x / LANES;
    uint4 held[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        const unsigned group = first_group + k * (BLOCK / LANES);
        const unsigned row = group / in_row;
        const int first = group % in_row * ELEMENTS + threadIdx.x % LANES * 8;
        // All lanes of a warp take part in its shuffles: past the last row they have a row of no elements.
        held[k] = load_vector(in + static_cast<size_t>(row) * n, first, row < rows ? n : 0);
    }
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        const unsigned group = first_group + k * (BLOCK / LANES);
        const unsigned row = group / in_row;
        const int first = group % in_row * ELEMENTS + threadIdx.x % LANES * 8;
        const Scaling scaling = scaling_of<KIND>(largest_lane<LANES>(largest_of(held[k])));
        store_codes<KIND>(codes + static_cast<size_t>(row) * n, held[k], scaling.inverse, first, row < rows ? n : 0);
        if (threadIdx.x % LANES == 0 && row < rows) {
            scales[group] = scaling.scale;
        }
    }
}
