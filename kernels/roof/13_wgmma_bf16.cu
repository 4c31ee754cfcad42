// wgmma_bf16: products in bfloat16 by wgmma, accumulated in float32.
//
// Against wgmma_tf32 an instruction takes twice the elements along k in the same time. On random values an H200 reaches
// its power limit first: the clock falls, and the rate with it. On zeros the same kernel would run faster.

#include "../common/wgmma_tiles.cuh"

extern "C" __global__ void __launch_bounds__(128)
    wgmma_bf16(float* __restrict__ out, const __nv_bfloat16* __restrict__ left, const __nv_bfloat16* __restrict__ right,
               int tiles, int passes) {
    multiply_tiles<Bf16Product>(out, left, right, tiles, passes);
}
