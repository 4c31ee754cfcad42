// mma_fp16: products in half precision by mma.sync, summed in float32.
//
// The rate of mma_bf16, and more power for the longer mantissas: where power is the limit it is the slower of the two.
// GeForce products sum in float32 at half of this rate.

#include "../common/mma_tiles.cuh"

extern "C" __global__ void mma_fp16(float* __restrict__ out, const __half* __restrict__ left,
                                    const __half* __restrict__ right, int tiles, int passes) {
    multiply_tiles<Fp16Product>(out, left, right, tiles, passes);
}
