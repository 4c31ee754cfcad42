// The two types of 8-bit codes, eight at a time: conversion from float, rounded to nearest, and back.
#pragma once

#include <cuda_fp8.h>

#include "../common/vectors.cuh"

struct E4m3 {
    static constexpr float LARGEST = 448.0f;

    static __device__ __forceinline__ unsigned char code(float value) {
        return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
    }
    static __device__ __forceinline__ float value(unsigned char code) {
        return __half2float(__ushort_as_half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3).x));
    }
    // Four codes, the first in the lowest byte.
    static __device__ __forceinline__ unsigned codes(float a, float b, float c, float d) {
        const unsigned low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
        return low | static_cast<unsigned>(__nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, __NV_E4M3)) << 16;
    }
    static __device__ __forceinline__ void values(float* to, unsigned codes) {
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
            const __nv_fp8x2_storage_t two = static_cast<__nv_fp8x2_storage_t>(codes >> 16 * pair);
            const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3);
            to[2 * pair] = __half2float(__ushort_as_half(halves.x));
            to[2 * pair + 1] = __half2float(__ushort_as_half(halves.y));
        }
    }
};

struct Int8 {
    static constexpr float LARGEST = 127.0f;

    static __device__ __forceinline__ unsigned char code(float value) {
        return static_cast<unsigned char>(__float2int_rn(value));
    }
    static __device__ __forceinline__ float value(unsigned char code) {
        return static_cast<float>(static_cast<signed char>(code));
    }
    static __device__ __forceinline__ unsigned codes(float a, float b, float c, float d) {
        const unsigned low = __byte_perm(__float2int_rn(a), __float2int_rn(b), 0x0040);
        return __byte_perm(low, __byte_perm(__float2int_rn(c), __float2int_rn(d), 0x0040), 0x5410);
    }
    static __device__ __forceinline__ void values(float* to, unsigned codes) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            to[i] = value(static_cast<unsigned char>(codes >> 8 * i));
        }
    }
};

// The scale of a group of elements: the factor that its elements are multiplied by, and the one that restores them. A
// group of zeros needs no special case: its scale is tiny, not zero.
struct Scaling {
    float inverse, scale;
};

template <typename Kind>
__device__ __forceinline__ Scaling scaling_of(float largest) {
    const float divisor = fmaxf(largest, 1e-30f);
    return {Kind::LARGEST / divisor, divisor / Kind::LARGEST};
}

// The largest magnitude in a vector.
__device__ __forceinline__ float largest_of(uint4 vector) {
    float x[8];
    unpack(x, vector);
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        largest = fmaxf(largest, fabsf(x[i]));
    }
    return largest;
}

// The largest of LANES neighbouring lanes, a power of two; each of them gets the result.
template <int LANES>
__device__ __forceinline__ float largest_lane(float own) {
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        own = fmaxf(own, __shfl_xor_sync(0xffffffffu, own, distance));
    }
    return own;
}

// Stores the codes of a vector that begins at element `first` of a row of n.
template <typename Kind>
__device__ __forceinline__ void store_codes(unsigned char* __restrict__ row, uint4 vector, float inverse, int first,
                                            int n) {
    float x[8];
    unpack(x, vector);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        x[i] *= inverse;
    }
    if (n % 8 == 0) {
        if (first < n) {
            *reinterpret_cast<uint2*>(row + first) =
                make_uint2(Kind::codes(x[0], x[1], x[2], x[3]), Kind::codes(x[4], x[5], x[6], x[7]));
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (first + i < n) {
            row[first + i] = Kind::code(x[i]);
        }
    }
}

// Loads eight codes of a row of n, from element `first` on; zeros beyond the row.
__device__ __forceinline__ uint2 load_codes(const unsigned char* __restrict__ row, int first, int n) {
    if (n % 8 == 0) {
        return first < n ? *reinterpret_cast<const uint2*>(row + first) : make_uint2(0, 0);
    }
    unsigned words[2] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        words[i / 4] |= first + i < n ? static_cast<unsigned>(row[first + i]) << 8 * (i % 4) : 0u;
    }
    return make_uint2(words[0], words[1]);
}
