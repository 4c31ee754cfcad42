// wgmma_fp8: products of 8-bit floats (e4m3) by a warpgroup.
//
// Against wgmma_bf16 twice the elements of k in an instruction of the same duration. Sums are float32, but on Hopper
// products of e4m3 are added with some 13 bits after the leading one, hence this stage's tolerance.

#include "../common/wgmma_tiles.cuh"

extern "C" __global__ void __launch_bounds__(128)
    wgmma_fp8(float* __restrict__ out, const __nv_fp8_e4m3* __restrict__ left, const __nv_fp8_e4m3* __restrict__ right,
              int tiles, int passes) {
    multiply_tiles<Fp8Product>(out, left, right, tiles, passes);
}
