// tcgen05_fp16: products in half precision by tcgen05.mma, accumulated in float32.
//
// As tcgen05_bf16 with other bits for the exponent: the peak is the same.
//
// Not timed: no GPU of compute capability 10.0 was available. Proven by the emulator alone.

#include "../common/tcgen05_tiles.cuh"

extern "C" __global__ void __launch_bounds__(128)
    tcgen05_fp16(float* __restrict__ out, const __half* __restrict__ left, const __half* __restrict__ right,
                 int tiles, int passes) {
    extern __shared__ __align__(1024) unsigned char memory[];

    multiply_tiles<Fp16Type>(memory, out, left, right, tiles, passes);
}
