// smem_unroll2_pad: smem_unroll2 with PAD unused floats at the end of each row of the tiles.
//
// It is conflict-free and has eight loads in flight per thread (32x8 threads): twice as many as smem_pad, for twice the
// shared memory. Expect a gain over smem_pad where occupancy stays full, most of it for the larger blocks, whose
// threads move few elements each.

#include "../common/tile.cuh"

#ifndef BLOCK_X
#define BLOCK_X 32
#endif
#ifndef BLOCK_Y
#define BLOCK_Y 8
#endif
#ifndef PAD
#define PAD 1
#endif

constexpr int SIDE = BLOCK_X > BLOCK_Y ? BLOCK_X : BLOCK_Y;

extern "C" __global__ void smem_unroll2_pad(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    __shared__ float tiles[2][SIDE][SIDE + PAD];
    const int tile_x = 2 * blockIdx.x;
    load_tile<BLOCK_X, BLOCK_Y>(tiles[0], in, nx, ny, tile_x, blockIdx.y);
    load_tile<BLOCK_X, BLOCK_Y>(tiles[1], in, nx, ny, tile_x + 1, blockIdx.y);
    __syncthreads();
    store_tile_transposed<BLOCK_X, BLOCK_Y>(out, tiles[0], nx, ny, tile_x, blockIdx.y);
    store_tile_transposed<BLOCK_X, BLOCK_Y>(out, tiles[1], nx, ny, tile_x + 1, blockIdx.y);
}
