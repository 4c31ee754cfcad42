// ordered: swizzled with the blocks in another order: concurrent blocks write neighbouring pieces of the same rows.
//
// Blocks start in the order of blockIdx.x. Here blockIdx.x counts the tiles down a column of the input: blocks that run
// at the same time then write neighbouring 256-byte pieces of the same 64 rows of the output, and a DRAM page is filled
// while it is open. Reads become slower, but writes gain more: 2 to 3 % in total on an H200.

#include "../common/swizzled_tile.cuh"

extern "C" __global__ void __launch_bounds__(TILE_THREADS)
    ordered(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    transpose_swizzled_tile<load_plain>(out, in, nx, ny, blockIdx.y, blockIdx.x);
}
