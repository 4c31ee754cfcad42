// bfloat16 in registers, eight at a time: K is a multiple of 8, so rows of A and B are whole pieces of 16 bytes.
#pragma once

#include <cuda_bf16.h>

// The eight elements of row `row` from column `k` on; zeros outside the matrix.
__device__ __forceinline__ uint4 load_eight(const __nv_bfloat16* __restrict__ from, int row, int rows, int k, int K) {
    return row < rows && k < K ? *reinterpret_cast<const uint4*>(from + static_cast<size_t>(row) * K + k)
                               : make_uint4(0, 0, 0, 0);
}

// The two values in a register: a bfloat16 is the upper half of a float.
__device__ __forceinline__ float2 unpack_bf16(unsigned packed) {
    return make_float2(__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000u));
}

// Packs two floats, rounded to nearest, into one register: the first in the lower half.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
#ifdef PEAKGATE_EMULATED
    return static_cast<unsigned>(__bfloat16_as_ushort(__float2bfloat16(high))) << 16 |
           __bfloat16_as_ushort(__float2bfloat16(low));
#else
    unsigned packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
#endif
}

// Stores two neighbouring elements of C, from the even column `col` on; stores nothing outside the matrix.
__device__ __forceinline__ void store_pair(__nv_bfloat16* __restrict__ C, int row, int col, int M, int N, float low,
                                           float high) {
    if (row < M && col < N) {
        *reinterpret_cast<unsigned*>(C + static_cast<size_t>(row) * N + col) = pack_bf16(low, high);
    }
}
