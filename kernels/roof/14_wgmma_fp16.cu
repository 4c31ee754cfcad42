// wgmma_fp16: products in half precision by a warpgroup, summed in float32.
//
// The rate of wgmma_bf16 at one clock; multiplying longer mantissas takes more power, so that the clock is lower.

#include "../common/wgmma_tiles.cuh"

extern "C" __global__ void __launch_bounds__(128)
    wgmma_fp16(float* __restrict__ out, const __half* __restrict__ left, const __half* __restrict__ right,
               int tiles, int passes) {
    multiply_tiles<Fp16Product>(out, left, right, tiles, passes);
}
