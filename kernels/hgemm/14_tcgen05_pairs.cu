// tcgen05_pairs: the two blocks of a pair multiply together, so that each reads only half of B.
//
// Against tcgen05_overlapped: one thread of the pair issues products of 256 x 256 x 16, which the tensor cores of both
// SMs execute (cta_group::2). Each block brings its 128 rows of A and 128 of the 256 rows of B; the tensor cores read
// the other half from the other SM. A slice is 32 KiB per block instead of 48, so that six slots fit instead of four, and
// an SM reads a third less from L2. On Hopper a pair had to load B into both blocks (multicast). The price: the blocks
// wait for each other at each slot, and tiles are 256 x 256, which are fewer for the last wave.
//
// Not timed: no GPU of compute capability 10.0 was available. Proven by the emulator alone.
//
// Launch: as tcgen05_overlapped, with an even number of blocks; tensor map of B with boxes of 128 x 64.

#define BLOCKS 2
#define SLOTS 6

#include "tensor_roles.cuh"

extern "C" __global__ TOGETHER void __launch_bounds__(THREADS, 1)
    tcgen05_pairs(const __grid_constant__ CUtensorMap c, const __grid_constant__ CUtensorMap a,
                  const __grid_constant__ CUtensorMap b, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];

    const Workspace work = new_workspace(memory);
    const Tiles tiles(M, N, K);
    if (threadIdx.x < 32 * STORING_WARPS) {
        store_tiles(work, tiles, &c);
    } else if (threadIdx.x == 32 * BRINGING_WARP) {
        bring_tiles(work, tiles, &a, &b);
    } else if (threadIdx.x == 32 * MULTIPLYING_WARP && tiles.rank == 0) {
        multiply_tiles(work, tiles);
    }
    end_workspace(work);
}
