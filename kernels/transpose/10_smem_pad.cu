// smem_pad: smem with PAD unused floats at the end of each row of the tile, which removes the bank conflicts.
//
// Rows of 33 floats put the elements of a column into 32 different banks: the transposed read is conflict-free instead
// of 32-way conflicted, and the kernel is twice as fast. The right padding depends on the block: one float where a warp
// reads one column of the tile (32 threads along x), two floats for 16x16 threads, where a warp reads two columns:
// 8-way conflicts without padding, 2-way with one float, none with two. README.md has all shapes. With 32x8 threads the
// stage is faster than copy_row, because each thread has four loads in flight.

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

extern "C" __global__ void smem_pad(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    __shared__ float tile[SIDE][SIDE + PAD];
    load_tile<BLOCK_X, BLOCK_Y>(tile, in, nx, ny, blockIdx.x, blockIdx.y);
    __syncthreads();
    store_tile_transposed<BLOCK_X, BLOCK_Y>(out, tile, nx, ny, blockIdx.x, blockIdx.y);
}
