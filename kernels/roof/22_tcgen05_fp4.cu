// tcgen05_fp4: products in 4-bit floats (e2m1) with block scales (NVFP4) by tcgen05.mma, accumulated in float32.
//
// Against tcgen05_fp8 an instruction takes twice the elements along k in the same time on 10.0, and in less on 10.3. The
// scales, one for 16 elements and all 1 here, are in tensor memory beside the sums, so that a block needs 512 columns, and
// of the blocks of an SM one at a time multiplies.
//
// Not timed: no GPU of compute capability 10.0 was available. Proven by the emulator alone.

#include "../common/tcgen05_tiles.cuh"

extern "C" __global__ void __launch_bounds__(128)
    tcgen05_fp4(float* __restrict__ out, const unsigned char* __restrict__ left, const unsigned char* __restrict__ right,
                int tiles, int passes) {
    extern __shared__ __align__(1024) unsigned char memory[];

    multiply_tiles<Fp4Type>(memory, out, left, right, tiles, passes);
}
