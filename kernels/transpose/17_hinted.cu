// hinted: ordered with cache hints on the loads: do not allocate in L1, evict last from L2.
//
// Every byte of the input is used once, so a line in L1 is wasted space. Why input lines should stay in L2 is less
// obvious, because they are not used again either: L2 then evicts output instead, which has to be written to memory in
// any case. The hints gain 1.5 to 2.5 % on an H200 and reach 98 to 99 % of the best copy of the same size.

#include "../common/cache_hints.cuh"
#include "../common/swizzled_tile.cuh"

extern "C" __global__ void __launch_bounds__(TILE_THREADS)
    hinted(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    transpose_swizzled_tile<load_keeping_in_l2>(out, in, nx, ny, blockIdx.y, blockIdx.x);
}
