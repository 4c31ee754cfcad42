// The microscaling formats: codes of 8 or 4 bits, and a scale of 8 bits for each 16 or 32 elements of a row.
//
// mxfp8 and mxfp4, as OCP specifies them (Microscaling Formats 1.0): e4m3 or e2m1, 32 elements with a power of two,
// stored as its exponent (ue8m0). nvfp4, as NVIDIA does: e2m1, 16 elements with a scale in e4m3, and a float for the
// whole matrix, the factor 6 * 448 over its largest magnitude, so that no group needs a scale beyond e4m3's 448.
#pragma once

#include "codes.cuh"

// A scale as it is stored, and the factor that elements are multiplied by.
struct GroupScale {
    unsigned char code;
    float inverse;
};

// Four bits: 0, 1/2, 1, 3/2, 2, 3, 4, 6 and a sign. Only some GPUs from Blackwell on have an instruction for it.
struct E2m1 {
    static constexpr int BITS = 4;

    // Rounded to nearest, halves to the even code; NaN becomes a zero.
    static __device__ __forceinline__ unsigned code(float value, float factor) {
        const float x = fabsf(value * factor);
        const int below_two = (x > 0.25f) + (x >= 0.75f) + (x > 1.25f) + (x >= 1.75f);
        const int magnitude = below_two + (x > 2.5f) + (x >= 3.5f) + (x > 5.0f);
        return magnitude | (__float_as_uint(value) >> 28 & 8);
    }
    // The codes of a vector, the first in the lowest bits.
    static __device__ __forceinline__ void codes(unsigned* words, uint4 vector, float factor) {
        float x[8];
        unpack(x, vector);
        words[0] = four_magnitudes(x, factor) | four_magnitudes(x + 4, factor) << 16 | signs(vector);
    }
    static __device__ __forceinline__ void values(float (&to)[8], const unsigned* words) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            // The magnitude's bits at the place of a float's are that number times 2^-126, also below 1.
            const unsigned code = words[0] >> 4 * i;
            to[i] = __uint_as_float((code & 8) << 28 | (code & 7) << 22) * 0x1p126f;
        }
    }

protected:
    // The sign of each element in the highest bit of its code.
    static __device__ __forceinline__ unsigned signs(uint4 vector) {
        return (bytes<3, 7>(vector) & 0x80808080) | (bytes<1, 5>(vector) >> 4 & 0x08080808);
    }
    // A byte of each of four words: FIRST of the first and the third, SECOND - 4 of the others.
    template <int FIRST, int SECOND>
    static __device__ __forceinline__ unsigned bytes(uint4 words) {
        constexpr int CHOSEN = FIRST | SECOND << 4;
        return __byte_perm(__byte_perm(words.x, words.y, CHOSEN), __byte_perm(words.z, words.w, CHOSEN), 0x5410);
    }

private:
    // Steps of 1/2 up to 2, of 1 up to 4 and of 2 up to 6 are three parts, each a number that saturates at both ends.
    // The last code of a part is even, so halves are rounded to even from there on too. Sums are rounded to integers,
    // since a float beyond 2^23 has no fraction. These are additions and multiplications alone: minima, comparisons
    // and operations on integers have half their throughput.
    static __device__ __forceinline__ unsigned four_magnitudes(const float* x, float factor) {
        constexpr float ROUNDING = 0x1.8p23f;
        float sum = ROUNDING;
#pragma unroll
        for (int i = 3; i >= 0; --i) {
            const float magnitude = fabsf(x[i] * factor);
            sum = fmaf(sum, 16.0f, -15.0f * ROUNDING);  // the codes so far move up by four bits
            sum = fmaf(__saturatef(magnitude * 0.5f), 4.0f, sum);
            sum = fmaf(__saturatef(fmaf(magnitude, 0.5f, -1.0f)), 2.0f, sum);
            sum += __saturatef(fmaf(magnitude, 0.5f, -2.0f));
        }
        return __float_as_uint(sum) & 0xffff;
    }
};

// Where factors are powers of two, products are exact in bfloat16, so that pairs of elements are rounded at once. The
// code is the least of 2x, x + 2, x / 2 + 4 and 7, each rounded: halves of these are added to 96, since a bfloat16
// from 64 to 128 has steps of 1/2.
struct E2m1InPairs : E2m1 {
    static __device__ __forceinline__ void codes(unsigned* words, uint4 vector, float factor) {
        const unsigned from[4] = {vector.x, vector.y, vector.z, vector.w};
        unsigned rounded[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const __nv_bfloat162 x = __habs2(*reinterpret_cast<const __nv_bfloat162*>(&from[i]));
            const __nv_bfloat162 low = __hmin2(sum(x, factor, 96.0f), sum(x, 0.5f * factor, 97.0f));
            const __nv_bfloat162 high = __hmin2(sum(x, 0.25f * factor, 98.0f), __float2bfloat162_rn(99.5f));
            const __nv_bfloat162 least = __hmin2(low, high);
            rounded[i] = *reinterpret_cast<const unsigned*>(&least);
        }
        const uint4 all = make_uint4(rounded[0], rounded[1], rounded[2], rounded[3]);
        const unsigned magnitudes = (bytes<0, 4>(all) & 0x07070707) | (bytes<2, 6>(all) & 0x07070707) << 4;
        words[0] = factor == factor ? magnitudes | signs(vector) : 0;
    }

private:
    static __device__ __forceinline__ __nv_bfloat162 sum(__nv_bfloat162 x, float factor, float summand) {
        return __hfma2(x, __float2bfloat162_rn(factor), __float2bfloat162_rn(summand));
    }
};

// The same functions of the 8-bit codes.
struct E4m3Codes {
    static constexpr int BITS = 8;

    static __device__ __forceinline__ unsigned code(float value, float factor) {
        return E4m3::code(value * factor);
    }
    static __device__ __forceinline__ void codes(unsigned* words, uint4 vector, float factor) {
        float x[8];
        unpack(x, vector);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            x[i] *= factor;
        }
        words[0] = E4m3::codes(x[0], x[1], x[2], x[3]);
        words[1] = E4m3::codes(x[4], x[5], x[6], x[7]);
    }
    static __device__ __forceinline__ void values(float (&to)[8], const unsigned* words) {
        E4m3::values(to, words[0]);
        E4m3::values(to + 4, words[1]);
    }
};

// A scale is the largest power of two in a group over the largest one of the codes, 2^EXPONENT; NaN if the group has an
// infinity or NaN. The bits of ue8m0 are those of a float's exponent.
template <typename Codes, int EXPONENT>
struct PowersOfTwo : Codes {
    static constexpr int GROUP = 32;

    static __device__ __forceinline__ GroupScale scale_of(float largest, float) {
        const int exponent = __float_as_int(largest) >> 23;
        if (exponent == 255) {
            return {255, __int_as_float(0x7fffffff)};
        }
        const int code = max(exponent - EXPONENT, 0);
        return {static_cast<unsigned char>(code), __int_as_float((254 - code) << 23)};
    }
    static __device__ __forceinline__ float scale(unsigned char code, float) {
        return code == 255 ? __int_as_float(0x7fffffff) : code == 0 ? 0x1p-127f : __int_as_float(code << 23);
    }
};

using Mxfp8 = PowersOfTwo<E4m3Codes, 8>;
using Mxfp4 = PowersOfTwo<E2m1InPairs, 2>;

struct Nvfp4 : E2m1 {
    static constexpr int GROUP = 16;
    static constexpr float LARGEST = 6.0f, INFINITE = 0x1.fffffep127f;

    static __device__ __forceinline__ GroupScale scale_of(float largest, float matrix) {
        const unsigned char code = E4m3::code(largest / LARGEST * matrix);
        return {code, fminf(matrix / E4m3::value(code), INFINITE)};
    }
    static __device__ __forceinline__ float scale(unsigned char code, float one_over_matrix) {
        return E4m3::value(code) * one_over_matrix;
    }
};

// The larger of two magnitudes, NaN if one of them is: magnitudes are in the order of their bits.
__device__ __forceinline__ float larger(float a, float b) {
    return __uint_as_float(max(__float_as_uint(a), __float_as_uint(b)));
}
