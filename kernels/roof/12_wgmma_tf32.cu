// wgmma_tf32: products in tf32 by wgmma, the instruction of a warpgroup: the roof of tensor cores on Hopper.
//
// Against mma_tf32 one instruction of four warps multiplies 64 x 8 by 8 x 256, reads B from shared memory through a
// descriptor, and is asynchronous: tensor cores and warps work at the same time. Only this instruction reaches the full
// rate of the tensor cores.

#include "../common/wgmma_tiles.cuh"

extern "C" __global__ void __launch_bounds__(128)
    wgmma_tf32(float* __restrict__ out, const float* __restrict__ left, const float* __restrict__ right,
               int tiles, int passes) {
    multiply_tiles<Tf32Product>(out, left, right, tiles, passes);
}
