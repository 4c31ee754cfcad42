// ping_pong: the two groups take turns on the tensor cores, so that one multiplies while the other computes
// exponentials.
//
// Against wgmma: without synchronization the groups tend to multiply at the same time, and then to compute exponentials
// at the same time. A named barrier for each group lets a group start its products only when the other has started its
// own, so that the exponentials of one overlap the products of the other (Shah and others, arXiv:2407.08608, section
// 3.1).
//
// Launch: THREADS threads, grid (ceil(n / QUERIES), heads), dynamic shared memory for the queries, SLOTS tiles of keys
// and of values, and the barriers. Three-dimensional tensor maps with boxes of 64 columns in the 128-byte swizzle: 64
// rows of the result, QUERIES rows of the queries, KEYS rows of keys and values.

#define PING_PONG 1

#include "groups.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    ping_pong(const __grid_constant__ CUtensorMap o, const __grid_constant__ CUtensorMap q,
              const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v, int n) {
    extern __shared__ __align__(1024) unsigned char memory[];

    attend(memory, &o, &q, &k, &v, blockIdx.x * QUERIES, blockIdx.y, n);
}
