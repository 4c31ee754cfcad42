// fp8: the kernel of clusters on 8-bit floats (e4m3): twice the multiply-adds per byte.
//
// Against clusters: a row of 128 bytes has 128 elements, and a wgmma instruction takes 32 of them along k, so that the
// same slots, copies and barriers feed twice the multiply-adds. The sums do not have the precision of float any more:
// the tensor cores align the addends some 13 bits below the largest one and truncate the rest, which shows in a sum
// over thousands of k. cuBLASLt is run with the same kind of sums. Expect less than twice the rate of clusters: power
// limits both.
//
// Launch: as clusters; tensor maps of A and B with boxes of 128 columns.

#define E4M3

#include "persistent.cuh"

extern "C" __global__ TOGETHER void __launch_bounds__(THREADS, 1)
    fp8(const __grid_constant__ CUtensorMap c, const __grid_constant__ CUtensorMap a,
        const __grid_constant__ CUtensorMap b, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];

    take_tiles(memory, &c, &a, &b, M, N, K);
}
