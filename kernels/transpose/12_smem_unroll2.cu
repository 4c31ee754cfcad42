// smem_unroll2: smem with two tiles per block, next to each other in the input.
//
// Twice as many loads are in flight before the barrier, and half as many blocks are launched. The bank conflicts of
// smem remain and still limit the kernel: compare it with smem_unroll2_pad to see which of the two changes matters.

#include "../common/tile.cuh"

#ifndef BLOCK_X
#define BLOCK_X 32
#endif
#ifndef BLOCK_Y
#define BLOCK_Y 8
#endif

constexpr int SIDE = BLOCK_X > BLOCK_Y ? BLOCK_X : BLOCK_Y;

extern "C" __global__ void smem_unroll2(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    __shared__ float tiles[2][SIDE][SIDE];
    const int tile_x = 2 * blockIdx.x;
    load_tile<BLOCK_X, BLOCK_Y>(tiles[0], in, nx, ny, tile_x, blockIdx.y);
    load_tile<BLOCK_X, BLOCK_Y>(tiles[1], in, nx, ny, tile_x + 1, blockIdx.y);
    __syncthreads();
    store_tile_transposed<BLOCK_X, BLOCK_Y>(out, tiles[0], nx, ny, tile_x, blockIdx.y);
    store_tile_transposed<BLOCK_X, BLOCK_Y>(out, tiles[1], nx, ny, tile_x + 1, blockIdx.y);
}
