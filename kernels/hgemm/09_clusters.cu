// clusters: about as many blocks as SMs, which process one tile after the other; pairs of blocks share the slices that
// they load.
//
// Against specialised: the grid is persistent, so the start and the end of a tile overlap other products. The producer
// loads the first slices of the next tile while the groups multiply the last ones of this. A group rounds its sums to
// bfloat16, which needs half of their registers, begins the next tile, and stores the last one while the tensor cores
// work (persistent.cuh). Tiles are taken in bands (raster.cuh), so that blocks that run at the same time share rows of A
// and columns of B in L2. With CLUSTER 2 the two blocks of a pair compute tiles above one another: each loads half of
// the slice of B into both (multicast), and a slot is empty once the groups of both blocks have read it. This takes a
// third off the bytes that SMs read from L2. Expect a few percent from 3072 on, less where power limits the clock; with
// at most one tile per SM there is no next tile, and the bookkeeping costs as much as it gains.
//
// Launch: THREADS threads, a multiple of CLUSTER blocks in x, dynamic shared memory for SLOTS slices, STORES pieces of C
// for each group, and two barriers for each slot. Tensor maps of C with boxes of 64 x STORE_COLS, of A with ROWS x 64
// and of B with COLS / CLUSTER x 64, in the 128-byte swizzle; that of C has no swizzle where STORE_COLS is not 64.

#include "persistent.cuh"

extern "C" __global__ TOGETHER void __launch_bounds__(THREADS, 1)
    clusters(const __grid_constant__ CUtensorMap c, const __grid_constant__ CUtensorMap a,
             const __grid_constant__ CUtensorMap b, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];

    take_tiles(memory, &c, &a, &b, M, N, K);
}
