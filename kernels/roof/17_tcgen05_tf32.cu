// tcgen05_tf32: products in tf32 by tcgen05.mma, both operands in shared memory, sums in tensor memory.
//
// Against wgmma_tf32 an instruction of one thread multiplies 128 rows instead of 64, and no register has an operand or a
// sum. The peak of an SM is twice that of Hopper's.
//
// Not timed: no GPU of compute capability 10.0 was available. Proven by the emulator alone.

#include "../common/tcgen05_tiles.cuh"

extern "C" __global__ void __launch_bounds__(128)
    tcgen05_tf32(float* __restrict__ out, const float* __restrict__ left, const float* __restrict__ right,
                 int tiles, int passes) {
    extern __shared__ __align__(1024) unsigned char memory[];

    multiply_tiles<Tf32Type>(memory, out, left, right, tiles, passes);
}
