// smem: a square tile in shared memory, so that global memory is both read and written by rows.
//
// Loads and stores of global memory are coalesced. The side of the tile is the longer side of the block; a block that
// is shorter in one direction moves the tile in several steps (32x8 threads move a 32 x 32 tile, four elements per
// thread). The transposed read goes down a column of the tile. A row of 32 floats occupies exactly the 32 banks, so all
// threads of a warp access the same bank: each load is a 32-way bank conflict, and shared memory is the limit. With
// 8x32 threads a warp reads four columns of the tile at once, an 8-way conflict, and the kernel is much faster.

#include "../common/tile.cuh"

#ifndef BLOCK_X
#define BLOCK_X 32
#endif
#ifndef BLOCK_Y
#define BLOCK_Y 8
#endif

constexpr int SIDE = BLOCK_X > BLOCK_Y ? BLOCK_X : BLOCK_Y;

extern "C" __global__ void smem(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    __shared__ float tile[SIDE][SIDE];
    load_tile<BLOCK_X, BLOCK_Y>(tile, in, nx, ny, blockIdx.x, blockIdx.y);
    __syncthreads();
    store_tile_transposed<BLOCK_X, BLOCK_Y>(out, tile, nx, ny, blockIdx.x, blockIdx.y);
}
