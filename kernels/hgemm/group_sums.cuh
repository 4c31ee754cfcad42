// The sums of a group of four warps, 64 rows of a tile of C: a thread's sums 4 j to 4 j + 3 are in column 8 j + 2 (lane
// % 4) and the next one: the first two in row lane / 4 of the warp's sixteen rows, the others eight rows below.
#pragma once

#include "../common/hopper.cuh"
#include "../common/bf16.cuh"

// Stores the sums from registers to C, two neighbouring elements at a time: no shared memory, and no wait.
template <int SUMS>
__device__ __forceinline__ void store_group(const float (&sums)[SUMS], __nv_bfloat16* __restrict__ C, int M, int N,
                                            int first_row, int first_col) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = first_row + threadIdx.x % 128 / 32 * 16 + 8 * half + lane / 4;
#pragma unroll
        for (int j = 0; j < SUMS / 4; ++j) {
            store_pair(C, row, first_col + 8 * j + lane % 4 * 2, M, N, sums[4 * j + 2 * half],
                       sums[4 * j + 2 * half + 1]);
        }
    }
}
