// tcgen05_bf16: products in bfloat16 by tcgen05.mma, accumulated in float32.
//
// Against tcgen05_tf32 an instruction takes twice the elements along k in the same time.
//
// Not timed: no GPU of compute capability 10.0 was available. Proven by the emulator alone.

#include "../common/tcgen05_tiles.cuh"

extern "C" __global__ void __launch_bounds__(128)
    tcgen05_bf16(float* __restrict__ out, const __nv_bfloat16* __restrict__ left, const __nv_bfloat16* __restrict__ right,
                 int tiles, int passes) {
    extern __shared__ __align__(1024) unsigned char memory[];

    multiply_tiles<Bf16Type>(memory, out, left, right, tiles, passes);
}
