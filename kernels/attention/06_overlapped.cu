// overlapped: a group computes exponentials while its own product with the values is still executing.
//
// Against ping_pong: a group starts the products for the next scores first, and then the product of the current weights
// with their values. The scores are finished first and become weights while the tensor cores are still busy. This needs
// registers for the scores of one tile beside the weights of the tile before (the same paper, section 3.2).
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
