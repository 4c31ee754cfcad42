// tcgen05_overlapped: roles for warps and two sets of sums, so that tensor cores multiply while C is stored
// (tensor_roles.cuh).
//
// Against tcgen05: a block processes one tile after the other, and its warps have roles: a thread requests slices,
// another multiplies, four warps store. The sums of a tile fill half of tensor memory, so the products of the next tile
// begin in the other half while those warps load, convert and store the first; on Hopper the registers of a second group
// were needed for that. No warp waits for another but at barriers for slots and for halves. C leaves through shared
// memory by the copy engine. What is left: each SM reads all of its 128 rows of A and 256 rows of B for itself.
//
// Not timed: no GPU of compute capability 10.0 was available. Proven by the emulator alone.
//
// Launch: THREADS threads, as many blocks as SMs, dynamic shared memory for SLOTS slices, two pieces of C, two barriers
// for each slot and half, and an address. Tensor maps of C with boxes of 128 x 64, of A with 128 x 64 and of B with
// 256 x 64, in the 128-byte swizzle.

#include "tensor_roles.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    tcgen05_overlapped(const __grid_constant__ CUtensorMap c, const __grid_constant__ CUtensorMap a,
                       const __grid_constant__ CUtensorMap b, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];

    const Workspace work = new_workspace(memory);
    const Tiles tiles(M, N, K);
    if (threadIdx.x < 32 * STORING_WARPS) {
        store_tiles(work, tiles, &c);
    } else if (threadIdx.x == 32 * BRINGING_WARP) {
        bring_tiles(work, tiles, &a, &b);
    } else if (threadIdx.x == 32 * MULTIPLYING_WARP) {
        multiply_tiles(work, tiles);
    }
    end_workspace(work);
}
