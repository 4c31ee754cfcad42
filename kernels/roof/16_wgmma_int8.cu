// wgmma_int8: products of 8-bit integers by wgmma, accumulated in 32 bits.
//
// The rate is that of wgmma_fp8, and every sum is exact. What is counted as flops are integer operations.

#include "../common/wgmma_tiles.cuh"

extern "C" __global__ void __launch_bounds__(128)
    wgmma_int8(int* __restrict__ out, const signed char* __restrict__ left, const signed char* __restrict__ right,
               int tiles, int passes) {
    multiply_tiles<Int8Product>(out, left, right, tiles, passes);
}
