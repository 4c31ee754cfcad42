// wgmma_fp16: products in half precision by wgmma, accumulated in float32.
//
// At the same clock the rate is that of wgmma_bf16; multiplying longer mantissas needs more power, so the clock is
// lower.

#include "../common/wgmma_tiles.cuh"

extern "C" __global__ void __launch_bounds__(128)
    wgmma_fp16(float* __restrict__ out, const __half* __restrict__ left, const __half* __restrict__ right,
               int tiles, int passes) {
    multiply_tiles<Fp16Product>(out, left, right, tiles, passes);
}
