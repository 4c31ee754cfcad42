// Slices of k copied by the threads themselves: tiles whose rows are 128 bytes along k, in the 128-byte swizzle.
#pragma once

#include "../common/async_copy.cuh"
#include "warp_mma.cuh"

#define THREADS 256

// Begins to copy TILE_ROWS rows of a slice to a tile; what lies outside the matrix becomes zero.
template <int TILE_ROWS>
__device__ __forceinline__ void copy_slice(unsigned char* tile, const __nv_bfloat16* __restrict__ from, int first_row, int rows,
                                           int k, int K) {
    const int piece = threadIdx.x % 8;
#pragma unroll
    for (int row = threadIdx.x / 8; row < TILE_ROWS; row += THREADS / 8) {
        const bool inside = first_row + row < rows && k + piece * 8 < K;
        const __nv_bfloat16* const source =
            inside ? from + static_cast<size_t>(first_row + row) * K + k + piece * 8 : from;
        copy_async<16>(tile + place_of(row, piece), source, inside ? 16 : 0);
    }
}
