// longest_first: in causal attention, the blocks with the most keys start first.
//
// Against overlapped: the last queries of a head attend to all keys, the first ones to one tile, and blocks start in
// the order of their numbers. With the longest blocks last, some SMs still work while others have no block left. Here
// the first blocks of the grid are those with the last queries of HEADS_TOGETHER heads, followed by the blocks with the
// queries before those: the blocks that are left at the end are short, and the keys and values of these heads stay in
// L2.
//
// Launch: THREADS threads, grid (ceil(n / QUERIES), heads), dynamic shared memory for the queries, SLOTS tiles of keys
// and of values, and the barriers. Three-dimensional tensor maps with boxes of 64 columns in the 128-byte swizzle: 64
// rows of the result, QUERIES rows of the queries, KEYS rows of keys and values.

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
