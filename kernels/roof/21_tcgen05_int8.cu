// tcgen05_int8: products in 8-bit integers by tcgen05.mma, accumulated in 32-bit integers.
//
// The rate of tcgen05_fp8 on 10.0; compute capability 10.3 has a thirtieth of it.
//
// Not timed: no GPU of compute capability 10.0 was available. Proven by the emulator alone.

#include "../common/tcgen05_tiles.cuh"

extern "C" __global__ void __launch_bounds__(128)
    tcgen05_int8(int* __restrict__ out, const signed char* __restrict__ left, const signed char* __restrict__ right,
                 int tiles, int passes) {
    extern __shared__ __align__(1024) unsigned char memory[];

    multiply_tiles<Int8Type>(memory, out, left, right, tiles, passes);
}
