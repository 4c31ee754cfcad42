// mma_fp16: products in half precision by mma.sync, accumulated in float32.
//
// The rate is that of mma_bf16, but the longer mantissas need more power: where power is the limit this stage is the
// slower of the two. GeForce GPUs accumulate in float32 at half of this rate.

#include "../common/mma_tiles.cuh"

extern "C" __global__ void mma_fp16(float* __restrict__ out, const __half* __restrict__ left,
                                    const __half* __restrict__ right, int tiles, int passes) {
    multiply_tiles<Fp16Product>(out, left, right, tiles, passes);
}
