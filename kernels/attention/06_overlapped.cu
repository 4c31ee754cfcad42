// overlapped: a group starts the products for its next scores before its product with the values.
//
// Against ping_pong: the scores are finished first, and may become weights while the product of the weights of the tile
// before with their values is still executing. This needs registers for the scores of one tile beside the weights of the
// tile before (the same paper, section 3.2). NVRTC 13.0 moves the wait for that product ahead of most exponentials, so
// that these overlap with products of the other group: README.md, "What limits the last stage".
//
// Launch: THREADS threads, grid (ceil(n / QUERIES), heads), dynamic shared memory for the queries, SLOTS tiles of keys
// and of values, and the barriers. Three-dimensional tensor maps with boxes of 64 columns in the 128-byte swizzle: 64
// rows of the result, QUERIES rows of the queries, KEYS rows of keys and values.

#define PING_PONG 1
#define OVERLAP 1

#include "groups.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    overlapped(const __grid_constant__ CUtensorMap o, const __grid_constant__ CUtensorMap q,
               const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v, int n) {
    extern __shared__ __align__(1024) unsigned char memory[];

    attend(memory, &o, &q, &k, &v, blockIdx.x * QUERIES, blockIdx.y, n);
}
