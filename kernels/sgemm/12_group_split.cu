// group_split: for medium-sized problems: a large tile per block, with each slice of k divided among groups of warps.
//
// Against barrier_ring: at 1024 x 1024 its tile of 128 x 256 leaves 100 of 132 SMs idle, and a small tile with one
// block of few warps per SM cannot hide its latencies. Here K_GROUPS groups of warps have sums for the same tile, and
// each multiplies its own part of every slice, so that a tile of 64 x 128 still has 8 x 8 elements per thread and eight
// busy warps per SM. At the end the sums of the groups are added in shared memory, in a fixed order. In split_k each
// warp loads slices of its own; here a group loads k for all its warps, which takes fewer bytes from L2 per
// multiply-add. Bandwidth from L2 is the first limit of a tile of this size.
//
// Launch: THREADS threads, grid (ceil(N / TILE_COLS), ceil(M / TILE_ROWS)), dynamic shared memory SLOTS *
// FLOATS_OF_SLOT * 4 bytes.

#ifndef THREAD_COLS
#define THREAD_COLS 8
#define WARPS_DOWN 2
#define K_GROUPS 2
#endif
#define WRITE_STEP 1

#include "pointer_slices.cuh"
#include "raster.cuh"
#include "ring_loop.cuh"

#define PITCH_OF_PARTIAL (TILE_COLS + 8)

static_assert(K_GROUPS * TILE_ROWS * PITCH_OF_PARTIAL <= SLOTS * FLOATS_OF_SLOT, "the partial tiles fit in the ring");

__device__ __forceinline__ void add_groups(const Sums& sum, float* partial, float* __restrict__ C, int M, int N,
                                           int first_row, int first_col) {
    const Place place = place_of(threadIdx.x);
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; ++i) {
        const int row = place.group * TILE_ROWS + place.row + i / 4 * ROW_STEP + i % 4;
#pragma unroll
        for (int j = 0; j < THREAD_COLS; j += 4) {
            write4(partial + row * PITCH_OF_PARTIAL + place.col + j / 4 * COL_STEP, detached(&sum[i][j]));
        }
    }
    __syncthreads();
    for (int e = threadIdx.x; e < TILE_ROWS * TILE_COLS / 4; e += THREADS) {
        const int row = e / (TILE_COLS / 4);
        const int col = e % (TILE_COLS / 4) * 4;
        float4 total = read4(partial + row * PITCH_OF_PARTIAL + col);
#pragma unroll
        for (int group = 1; group < K_GROUPS; ++group) {
            const float4 part = read4(partial + (group * TILE_ROWS + row) * PITCH_OF_PARTIAL + col);
            total.x += part.x;
            total.y += part.y;
            total.z += part.z;
            total.w += part.w;
        }
        store4(C, first_row + row, first_col + col, M, N, total);
    }
}

template <bool WHOLE>
__device__ __forceinline__ void make_tile(float* __restrict__ C, const float* __restrict__ A,
                                          const float* __restrict__ B, int M, int N, int K, int first_row,
                                          int first_col, float* slots) {
    Ring ring = new_ring(slots);
    Sums sum = {};
    const int slices = (K + SLICE_DEPTH - 1) / SLICE_DEPTH;
    const PointerSlices<WHOLE> from(ring, A, B, M, N, K, first_row, first_col, 0);
    multiply_slices(sum, ring, from, slices);
    add_groups(sum, retired(ring), C, M, N, first_row, first_col);
}

// A separate function: the bounds checks must not cost registers where tiles are whole.
__device__ __noinline__ void make_edge_tile(float* __restrict__ C, const float* __restrict__ A,
                                            const float* __restrict__ B, int M, int N, int K, int first_row,
                                            int first_col, float* slots) {
    make_tile<false>(C, A, B, M, N, K, first_row, first_col, slots);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    group_split(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K) {
    extern __shared__ __align__(16) float slots[];

    const TileIndex tile = raster(blockIdx.y * gridDim.x + blockIdx.x, gridDim.y, gridDim.x);
    const int first_row = tile.row * TILE_ROWS;
    const int first_col = tile.col * TILE_COLS;
    if (is_whole(M, N, K, first_row, first_col)) {
        make_tile<true>(C, A, B, M, N, K, first_row, first_col, slots);
    } else {
        make_edge_tile(C, A, B, M, N, K, first_row, first_col, slots);
    }
}
