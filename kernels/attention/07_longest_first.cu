// longest_first: in causal attention, the blocks with the most keys start first.
//
// Against overlapped: the last queries of a head see all keys, the first ones a tile, and blocks begin in the order of
// their numbers. With the longest ones last, some SMs work on while others have run out of blocks. Here HEADS_TOGETHER heads
// share the grid's first blocks, the last queries of each, then those before: what is left at the end is short, and the
// keys and values of these heads stay in L2 meanwhile.
//
// Launch: THREADS threads, grid (ceil(n / QUERIES), heads), dynamic shared memory for the queries, SLOTS tiles of keys and
// of values, and the barriers. Maps of three axes with boxes of 64 columns in the 128-byte swizzle: 64 rows of the result,
// QUERIES of the queries, KEYS of keys and values.

#define PING_PONG 1
#define OVERLAP 1

#include "groups.cuh"

#ifndef HEADS_TOGETHER
#define HEADS_TOGETHER 4
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    longest_first(const __grid_constant__ CUtensorMap o, const __grid_constant__ CUtensorMap q,
                  const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v, int n) {
    extern __shared__ __align__(1024) unsigned char memory[];

    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    const int first_head = block / (HEADS_TOGETHER * gridDim.x) * HEADS_TOGETHER;
    const int together = min(HEADS_TOGETHER, gridDim.y - first_head);
    const int in_section = block - first_head * gridDim.x;
    const int tile = gridDim.x - 1 - in_section / together;
    attend(memory, &o, &q, &k, &v, tile * QUERIES, first_head + in_section % together, n);
}
