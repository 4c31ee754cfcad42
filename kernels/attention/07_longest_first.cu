// longest_first: of causal attention, the blocks with the most keys begin.
//
// Against overlapped: the last queries of a head see all keys, the first ones a tile, and blocks begin in the order of
// their numbers. With the longest ones last, some SMs work on while others have run out of blocks. Here heads are the
// fast axis of the grid and queries go from the last to the first, so that what is left at the end is short.
//
// Launch: THREADS threads, grid (heads, ceil(n / QUERIES)), dynamic shared memory for the queries, SLOTS tiles of keys and
// of values, and the barriers. Maps of three axes with boxes of 64 columns in the 128-byte swizzle: 64 rows of the result,
// QUERIES of the queries, KEYS of keys and values.

#define PING_PONG 1
#define OVERLAP 1

#include "groups.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    longest_first(const __grid_constant__ CUtensorMap o, const __grid_constant__ CUtensorMap q,
                  const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v, int n) {
    extern __shared__ __align__(1024) unsigned char memory[];

    attend(memory, &o, &q, &k, &v, (gridDim.y - 1 - blockIdx.y) * QUERIES, blockIdx.x, n);
}
