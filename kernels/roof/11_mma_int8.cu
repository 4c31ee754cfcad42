// mma_int8: products of 8-bit integers by mma.sync, accumulated in 32 bits.
//
// Against mma_bf16 an instruction takes 32 elements along k instead of 16: twice the rate, in integer operations that
// are counted as flops are. Every sum is exact, so a single missing product shows.

#include "../common/mma_tiles.cuh"

extern "C" __global__ void mma_int8(int* __restrict__ out, const signed char* __restrict__ left,
                                    const signed char* __restrict__ right, int tiles, int passes) {
    multiply_tiles<Int8Product>(out, left, right, tiles, passes);
}
