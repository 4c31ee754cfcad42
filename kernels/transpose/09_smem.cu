// smem: a square tile goes through shared memory, so global memory is read by rows and written by rows.
//
// Both sides are coalesced. The tile's side is the longer side of the block; a block that is shorter in one direction
// walks the tile in steps (32x8 threads move a 32 x 32 tile, four elements each). The transposed read walks a column of
// the tile, and a row of 32 floats is exactly 32 banks: every lane of a warp hits the same bank, a 32-way conflict per
// load. So shared memory limits it. A block of 8x32 threads has four columns of the tile in a warp and a quarter of the
// conflicts, and is much faster for it.

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
