// mma_tf32: products in tf32 by mma.sync: the roof of tensor cores before Hopper.
//
// tf32 has the exponent of a float32 and the mantissa of a half: the last 13 bits of a float32 are ignored. Its rate is
// half that of bf16, since a row of 32 bytes has half as many elements. On a GPU of compute capability 9.0 mma.sync
// leaves a third or more of the tensor cores' rate unused, whatever the type: see wgmma_tf32.

#include "../common/mma_tiles.cuh"

extern "C" __global__ void mma_tf32(float* __restrict__ out, const float* __restrict__ left,
                                    const float* __restrict__ right, int tiles, int passes) {
    multiply_tiles<Tf32Product>(out, left, right, tiles, passes);
}
