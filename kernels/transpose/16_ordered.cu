// ordered: swizzled, with blocks that walk along the rows of the output.
//
// Blocks start in the order of blockIdx.x. Let it count the tiles down the input: those that run together then write
// neighbouring 256-byte pieces of the same 64 output rows, and a DRAM page is filled while it is open. Reads become
// slower, writes gain more: 2 to 3 % in all on an H200.

#include "../common/swizzled_tile.cuh"

extern "C" __global__ void __launch_bounds__(TILE_THREADS)
    ordered(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    transpose_swizzled_tile<load_plain>(out, in, nx, ny, blockIdx.y, blockIdx.x);
}
