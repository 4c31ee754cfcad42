// barrier_ring: slices of k pass through a ring buffer of slots, each with a split barrier, and no warp waits for
// others.
//
// Against warp_tiled:
// - Each slot has a barrier in two halves (ring_tile.cuh): a warp arrives when it has written its part, and continues.
//   At __syncthreads() every warp waits for the slowest warp at every slice, and with two warps per scheduler no other
//   warp can issue meanwhile.
// - The loop is almost only multiply-adds, 92 of 100 instructions (ring_loop.cuh); its addresses and loads are written
//   so that the compiler uses both banks of the register file well (offset_slices.cuh).
// - Sums are copied out of the registers that a float4 store needs, so that during the loop they can be in the bank
//   that suits it.
// - Tiles are taken in bands, so that blocks that run at the same time share rows of A and columns of B in L2.
// What remains is the partial wave: 128 of 132 SMs have a tile of 128 x 256 at 2048, and 97 % of the SMs' time is used
// at 4096 and 8192.
//
// Launch: THREADS threads, grid (ceil(N / TILE_COLS), ceil(M / TILE_ROWS)), dynamic shared memory SLOTS *
// FLOATS_OF_SLOT * 4 bytes.

#include "offset_slices.cuh"
#include "raster.cuh"
#include "ring_loop.cuh"

template <bool WHOLE>
__device__ __forceinline__ void make_tile(float* __restrict__ C, const float* __restrict__ A,
                                          const float* __restrict__ B, int M, int N, int K, int first_row,
                                          int first_col, float* slots) {
    Ring ring = new_ring(slots);
    Sums sum = {};
    const int slices = (K + SLICE_DEPTH - 1) / SLICE_DEPTH;
    const OffsetSlices<WHOLE> from(ring, A, B, M, N, K, first_row, first_col, 0);
    multiply_slices(sum, ring, from, slices);
    store_sums(sum, C, M, N, first_row, first_col);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    barrier_ring(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K) {
    extern __shared__ __align__(16) float slots[];

    const TileIndex tile = raster(blockIdx.y * gridDim.x + blockIdx.x, gridDim.y, gridDim.x);
    const int first_row = tile.row * TILE_ROWS;
    const int first_col = tile.col * TILE_COLS;
    if (is_whole(M, N, K, first_row, first_col)) {
        make_tile<true>(C, A, B, M, N, K, first_row, first_col, slots);
    } else {
        make_tile<false>(C, A, B, M, N, K, first_row, first_col, slots);
    }
}
