// clusters: as many blocks as SMs, each taking tile after tile; blocks in pairs that share what they read.
//
// Against specialised: the grid is persistent, so the producer brings the first slices of the next tile while the
// groups store the sums of the last one, and tiles are taken in bands (raster.cuh), so that the blocks of a wave share
// rows of A and columns of B in L2. With CLUSTER 2 the two blocks of a pair make tiles above one another: each brings
// half of the slice of B to both (multicast), and a slot is empty when the groups of both blocks are done with it. That
// takes a third off what the SMs read from L2. Expect a few percent from 3072 on, less where power limits the clock; up
// to one tile for each SM there is no next tile, and the bookkeeping costs as much as it gains.
//
// Launch: THREADS threads, a multiple of CLUSTER blocks in x, dynamic shared memory BYTES. Maps of C with boxes of
// 64 x STORE_COLS, of A with ROWS x 64 and of B with COLS / CLUSTER x 64, in the 128-byte swizzle; C's without one where
// STORE_COLS is not 64.

#include "persistent.cuh"

extern "C" __global__ TOGETHER void __launch_bounds__(THREADS, 1)
    clusters(const __grid_constant__ CUtensorMap c, const __grid_constant__ CUtensorMap a,
             const __grid_constant__ CUtensorMap b, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];

    take_tiles(memory, &c, &a, &b, M, N, K);
}
