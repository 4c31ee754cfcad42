// mma_bf16: products in bfloat16 by mma.sync, accumulated in float32.
//
// Against mma_tf32 an instruction takes 16 elements along k instead of 8 in the same time: twice the rate. Expect 90 %
// and more of the peak on Ampere, for which mma.sync was made, and some 60 % on Hopper: there the instruction of a warp
// cannot read its fragments from registers as fast as the tensor cores multiply them.

#include "../common/mma_tiles.cuh"

extern "C" __global__ void mma_bf16(float* __restrict__ out, const __nv_bfloat16* __restrict__ left,
                                    const __nv_bfloat16* __restrict__ right, int tiles, int passes) {
    multiply_tiles<Bf16Product>(out, left, right, tiles, passes);
}
