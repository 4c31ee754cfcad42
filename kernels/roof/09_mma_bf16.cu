// mma_bf16: products in bfloat16 by mma.sync, summed in float32.
//
// Against mma_tf32 an instruction takes 16 elements of k instead of 8 and is as long: twice the rate. Expect 90 % and
// more of the peak on Ampere, which mma.sync was made for, and some 60 % on Hopper: there a warp's instruction cannot
// read its fragments from registers as fast as the tensor cores multiply them.

#include "../common/mma_tiles.cuh"

extern "C" __global__ void mma_bf16(float* __restrict__ out, const __nv_bfloat16* __restrict__ left,
                                    const __nv_bfloat16* __restrict__ right, int tiles, int passes) {
    multiply_tiles<Bf16Product>(out, left, right, tiles, passes);
}
