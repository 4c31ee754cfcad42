// Rows of float or bfloat16, loaded in vectors of 16 bytes and computed in float.
//
// A vector stays packed in registers until it is used: eight bfloat16 take four registers, not eight. The length of a
// row need not be a multiple of a vector's: then rows begin at any address and are moved one element at a time.
#pragma once

#include <cuda_bf16.h>

using bfloat16 = __nv_bfloat16;

template <typename T>
constexpr int PER_VECTOR = 16 / sizeof(T);

__device__ __forceinline__ float as_float(float value) {
    return value;
}

__device__ __forceinline__ float as_float(bfloat16 value) {
    return __bfloat162float(value);
}

__device__ __forceinline__ void store_rounded(float* to, float value) {
    *to = value;
}

__device__ __forceinline__ void store_rounded(bfloat16* to, float value) {
    *to = __float2bfloat16(value);
}

__device__ __forceinline__ void unpack(float (&values)[4], uint4 packed) {
    values[0] = __uint_as_float(packed.x);
    values[1] = __uint_as_float(packed.y);
    values[2] = __uint_as_float(packed.z);
    values[3] = __uint_as_float(packed.w);
}

// The two values in a register: a bfloat16 is the upper half of a float.
__device__ __forceinline__ void unpack_pair(float& low, float& high, unsigned packed) {
    low = __uint_as_float(packed << 16);
    high = __uint_as_float(packed & 0xffff0000u);
}

__device__ __forceinline__ void unpack(float (&values)[8], uint4 packed) {
    unpack_pair(values[0], values[1], packed.x);
    unpack_pair(values[2], values[3], packed.y);
    unpack_pair(values[4], values[5], packed.z);
    unpack_pair(values[6], values[7], packed.w);
}

__device__ __forceinline__ uint4 packed(const float (&values)[4]) {
    return make_uint4(__float_as_uint(values[0]), __float_as_uint(values[1]), __float_as_uint(values[2]),
                      __float_as_uint(values[3]));
}

// Packs two floats, rounded to nearest, into one register: the first in the lower half.
__device__ __forceinline__ unsigned packed_pair(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return static_cast<unsigned>(__bfloat16_as_ushort(pair.y)) << 16 | __bfloat16_as_ushort(pair.x);
}

__device__ __forceinline__ uint4 packed(const float (&values)[8]) {
    return make_uint4(packed_pair(values[0], values[1]), packed_pair(values[2], values[3]),
                      packed_pair(values[4], values[5]), packed_pair(values[6], values[7]));
}

// Keeps the compiler from reusing values that were unpacked before: they need not stay in registers.
template <int COUNT>
__device__ __forceinline__ void keep_packed(uint4 (&vectors)[COUNT]) {
#ifndef PEAKGATE_EMULATED
#pragma unroll
    for (int k = 0; k < COUNT; ++k) {
        asm volatile("" : "+r"(vectors[k].x), "+r"(vectors[k].y), "+r"(vectors[k].z), "+r"(vectors[k].w));
    }
#endif
}

// Loads the vector that begins at element `first` of a row of n elements; zeros beyond the end of the row.
template <typename T>
__device__ __forceinline__ uint4 load_vector(const T* __restrict__ row, int first, int n) {
    if (n % PER_VECTOR<T> == 0) {
        return first < n ? *reinterpret_cast<const uint4*>(row + first) : make_uint4(0, 0, 0, 0);
    }
    float values[PER_VECTOR<T>];
#pragma unroll
    for (int i = 0; i < PER_VECTOR<T>; ++i) {
        values[i] = first + i < n ? as_float(row[first + i]) : 0.0f;
    }
    return packed(values);
}

// Rounds and stores the elements of a vector that are inside the row.
template <typename T>
__device__ __forceinline__ void store_vector(T* __restrict__ row, int first, int n,
                                             const float (&values)[PER_VECTOR<T>]) {
    if (n % PER_VECTOR<T> == 0) {
        if (first < n) {
            *reinterpret_cast<uint4*>(row + first) = packed(values);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < PER_VECTOR<T>; ++i) {
        if (first + i < n) {
            store_rounded(row + first + i, values[i]);
        }
    }
}
