// restore: eight codes per load and 16 bytes per store, with VECTORS of them in flight per thread.
//
// Against restore_naive a store is as wide as it can be, the group is found once per eight elements, and the loads,
// which are half as wide as the stores, are issued two at a time, so that as many bytes are in flight as in a copy.
// Expect the roof.
//
// `group` is a multiple of 8, or a whole row.

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

extern "C" __global__ void __launch_bounds__(BLOCK, 2048 / BLOCK)
    restore(bfloat16* __restrict__ out, const unsigned char* __restrict__ codes, const float* __restrict__ scales, int rows,
            int n, int group) {
    const unsigned in_row = (n + 7) / 8;
    const unsigned groups = (n + group - 1) / group;
    const unsigned slot = blockIdx.x * (BLOCK * VECTORS) + threadIdx.x;
    uint2 held[VECTORS];
    float scale[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        const unsigned row = (slot + k * BLOCK) / in_row;
        const int first = (slot + k * BLOCK) % in_row * 8;
        const int length = row < rows ? n : 0;
        held[k] = load_codes(codes + static_cast<size_t>(row) * n, first, length);
        scale[k] = row < rows ? scales[static_cast<size_t>(row) * groups + first / group] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        const unsigned row = (slot + k * BLOCK) / in_row;
        const int first = (slot + k * BLOCK) % in_row * 8;
        float x[8];
        KIND::values(x, held[k].x);
        KIND::values(x + 4, held[k].y);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            x[i] *= scale[k];
        }
        store_vector(out + static_cast<size_t>(row) * n, first, row < rows ? n : 0, x);
    }
}
