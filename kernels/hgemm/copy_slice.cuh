// Slices of k that the threads copy themselves, to tiles whose rows are 128 bytes along k, in the 128-byte swizzle.
#pragma once

#include "../common/async_copy.cuh"
#include "../common/warp_mma.cuh"

#define THREADS 256

// Starts copying TILE_ROWS rows of a slice to a tile; elements outside the matrix become zero.
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

// Starts copying the slice at `k` to a slot, TILE_ROWS rows of A followed by TILE_COLS rows of B, as one group of
// copies.
template <int TILE_ROWS, int TILE_COLS>
__device__ __forceinline__ void copy_slot(unsigned char* slot, const __nv_bfloat16* __restrict__ A,
                                          const __nv_bfloat16* __restrict__ B, int first_row, int first_col, int M,
                                          int N, int k, int K) {
    copy_slice<TILE_ROWS>(slot, A, first_row, M, k, K);
    copy_slice<TILE_COLS>(slot + TILE_ROWS * ROW_BYTES, B, first_col, N, k, K);
    copy_async_commit();
}
