// wgmma_fp8: products of 8-bit floats (e4m3) by wgmma.
//
// Against wgmma_bf16 an instruction takes twice the elements along k in the same time. Sums are float32, but Hopper
// adds products of e4m3 with only some 13 bits after the leading one, hence the tolerance of this stage.

#include "../common/wgmma_tiles.cuh"

extern "C" __global__ void __launch_bounds__(128)
    wgmma_fp8(float* __restrict__ out, const __nv_fp8_e4m3* __restrict__ left, const __nv_fp8_e4m3* __restrict__ right,
              int tiles, int passes) {
    multiply_tiles<Fp8Product>(out, left, right, tiles, passes);
}
