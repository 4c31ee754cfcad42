// wgmma: groups of four warps multiply from shared memory, which the copy engine fills at the request of one thread.
//
// Against mma_sync: no warp loads fragments or copies tiles, and the scores of 64 queries with all keys of a tile take
// a few instructions. wgmma reads the values along their columns without a transposition; a bit of the instruction
// selects it. Within a group products and exponentials still alternate; while one group computes exponentials, the
// other may use the tensor cores, but only by chance.
//
// Launch: THREADS threads, grid (ceil(n / QUERIES), heads), dynamic shared memory for the queries, SLOTS tiles of keys
// and of values, and the barriers. Three-dimensional tensor maps with boxes of 64 columns in the 128-byte swizzle: 64
// rows of the result, QUERIES rows of the queries, KEYS rows of keys and values.

#include "groups.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    wgmma(const __grid_constant__ CUtensorMap o, const __grid_constant__ CUtensorMap q,
          const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v, int n) {
    extern __shared__ __align__(1024) unsigned char memory[];

    attend(memory, &o, &q, &k, &v, blockIdx.x * QUERIES, blockIdx.y, n);
}
