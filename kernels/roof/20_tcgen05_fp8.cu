// tcgen05_fp8: products in 8-bit floats (e4m3) by tcgen05.mma, accumulated in float32.
//
// Against tcgen05_bf16 an instruction takes twice the elements along k in the same time. The kind of instruction
// (f8f6f4) takes numbers of 6 and 4 bits too, at the rate of 8.
//
// Not timed: no GPU of compute capability 10.0 was available. Proven by the emulator alone.

#include "../common/tcgen05_tiles.cuh"

extern "C" __global__ void __launch_bounds__(128)
    tcgen05_fp8(float* __restrict__ out, const __nv_fp8_e4m3* __restrict__ left, const __nv_fp8_e4m3* __restrict__ right,
                int tiles, int passes) {
    extern __shared__ __align__(1024) unsigned char memory[];

    multiply_tiles<Fp8Type>(memory, out, left, right, tiles, passes);
}
