// fp8, fp6 and fp4 of cuda_fp8.h, cuda_fp6.h and cuda_fp4.h: conversions round to nearest even and saturate to the largest finite
// number; scales (e8m0) are rounded up, or to zero. Included in their place.
#pragma once

#include "cuda_half.h"

typedef unsigned char __nv_fp8_storage_t, __nv_fp6_storage_t, __nv_fp4_storage_t, __nv_fp4x2_storage_t;
typedef unsigned short __nv_fp8x2_storage_t, __nv_fp6x2_storage_t, __nv_fp4x4_storage_t;
typedef unsigned __nv_fp8x4_storage_t, __nv_fp6x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
enum __nv_fp6_interpretation_t { __NV_E2M3, __NV_E3M2 };
enum __nv_fp4_interpretation_t { __NV_E2M1 };
enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };

namespace peakgate {

// A sign, `exponents` and `mantissa` bits. In e4m3 the largest exponent has numbers, except for NaN; those of 6 and 4 bits
// have only numbers. e8m0 has neither sign nor mantissa: 2^(x - 127), 255 is NaN.
template <int mantissa, int exponents> struct Narrow {
    static constexpr int bits = (mantissa ? 1 : 0) + mantissa + exponents, bias = (1 << (exponents - 1)) - 1;
    static constexpr unsigned minus = 1u << (bits - 1);
    static constexpr int room = bits == 6 ? 8 : bits; // in a word
    static constexpr bool has_infinity = bits == 8 && mantissa == 2;
    static constexpr unsigned largest = minus - 1 - (bits < 8 ? 0 : mantissa == 3 ? 1 : has_infinity ? 4 : 0), not_a_number = minus - 1;
    static constexpr unsigned beyond = has_infinity ? largest + 1 : not_a_number; // without saturation

    static unsigned char narrowed(double value, bool saturates, bool to_zero = false) {
        if (mantissa == 0) return scale_of(value, saturates, to_zero);
        if (value != value) return not_a_number;
        const unsigned sign = signbit(value) ? minus : 0;
        const double magnitude = fabs(value);
        int exponent = 1 - bias;
        while (exponent < 16 && magnitude >= ldexp(1.0, exponent + 1)) ++exponent;
        const double scaled = ldexp(magnitude, mantissa - exponent), steps = to_zero ? floor(scaled) : rint(scaled);
        const double encoded = steps + ldexp(static_cast<double>(exponent + bias - 1), mantissa);
        if (!(encoded <= largest)) return static_cast<unsigned char>(sign | (saturates ? largest : beyond));
        return static_cast<unsigned char>(sign | static_cast<unsigned>(encoded));
    }
    static unsigned char scale_of(double value, bool saturates, bool to_zero) {
        const double magnitude = fabs(value);
        if (magnitude != magnitude || magnitude > 1.7976931348623157e308) return saturates && magnitude == magnitude ? 254 : 255;
        int power = 0;
        const double fraction = frexp(magnitude, &power); // in [1/2, 1)
        const int biased = magnitude == 0 ? 0 : power + (to_zero || fraction == 0.5 ? 126 : 127);
        const int most = saturates || to_zero ? 254 : 255;
        return static_cast<unsigned char>(biased < 0 ? 0 : biased > most ? most : biased);
    }
    static float widened(unsigned char from) {
        if (mantissa == 0) return from == 255 ? NAN : ldexpf(1, from - 127);
        const unsigned magnitude = from & (minus - 1), exponent = magnitude >> mantissa, fraction = magnitude & ((1u << mantissa) - 1);
        if (magnitude > largest && !(has_infinity && magnitude == beyond)) return NAN;
        const float value = magnitude > largest ? INFINITY
                            : exponent ? ldexpf(static_cast<float>(fraction + (1u << mantissa)), static_cast<int>(exponent) - bias - mantissa)
                                       : ldexpf(static_cast<float>(fraction), 1 - bias - mantissa);
        return from & minus ? -value : value;
    }

    unsigned char __x;
    Narrow() = default;
    explicit Narrow(float value) : __x(narrowed(static_cast<double>(value), true)) {}
    explicit Narrow(double value) : __x(narrowed(value, true)) {}
    template <class I, class = decltype(I() % 1)> explicit Narrow(I value) : __x(narrowed(static_cast<double>(value), true)) {}
    explicit Narrow(__half value) : Narrow(static_cast<float>(value)) {}
    explicit Narrow(__nv_bfloat16 value) : Narrow(static_cast<float>(value)) {}
    operator float() const { return widened(__x); }
    explicit operator __half() const { return __half(widened(__x)); }
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(widened(__x)); }
};

// Two or four numbers in one word, the first in its lowest bits.
template <class T, class Storage> struct NarrowWord {
    Storage __x;
    NarrowWord() = default;

protected:
    template <class... V> explicit NarrowWord(double first, V... others) : __x(0) {
        const double all[] = {first, others...};
        for (int i = 0; i < static_cast<int>(sizeof...(V)) + 1; ++i)
            __x = static_cast<Storage>(__x | static_cast<unsigned>(T(all[i]).__x) << (T::room * i));
    }
    float part(int i) const { return T::widened(static_cast<unsigned char>(__x >> (T::room * i) & (2 * T::minus - 1))); }
};
template <class T, class Storage> struct NarrowPair : NarrowWord<T, Storage> {
    using Base = NarrowWord<T, Storage>;
    NarrowPair() = default;
    explicit NarrowPair(float2 from) : Base(from.x, from.y) {}
    explicit NarrowPair(double2 from) : Base(from.x, from.y) {}
    explicit NarrowPair(__half2 from) : Base(static_cast<float>(from.x), static_cast<float>(from.y)) {}
    explicit NarrowPair(__nv_bfloat162 from) : Base(static_cast<float>(from.x), static_cast<float>(from.y)) {}
    explicit operator float2() const { return {this->part(0), this->part(1)}; }
    explicit operator __half2() const { return {__half(this->part(0)), __half(this->part(1))}; }
    explicit operator __nv_bfloat162() const { return {__nv_bfloat16(this->part(0)), __nv_bfloat16(this->part(1))}; }
};
template <class T, class Storage> struct NarrowQuad : NarrowWord<T, Storage> {
    using Base = NarrowWord<T, Storage>;
    NarrowQuad() = default;
    explicit NarrowQuad(float4 from) : Base(from.x, from.y, from.z, from.w) {}
    explicit NarrowQuad(double4 from) : Base(from.x, from.y, from.z, from.w) {}
    template <class H>
    NarrowQuad(Half2<H> low, Half2<H> high)
        : Base(static_cast<float>(low.x), static_cast<float>(low.y), static_cast<float>(high.x), static_cast<float>(high.y)) {}
    explicit operator float4() const { return {this->part(0), this->part(1), this->part(2), this->part(3)}; }
};

} // namespace peakgate

using __nv_fp8_e4m3 = peakgate::Narrow<3, 4>;
using __nv_fp8_e5m2 = peakgate::Narrow<2, 5>;
using __nv_fp8_e8m0 = peakgate::Narrow<0, 8>;
using __nv_fp6_e2m3 = peakgate::Narrow<3, 2>;
using __nv_fp6_e3m2 = peakgate::Narrow<2, 3>;
using __nv_fp4_e2m1 = peakgate::Narrow<1, 2>;
using __nv_fp8x2_e4m3 = peakgate::NarrowPair<__nv_fp8_e4m3, __nv_fp8x2_storage_t>;
using __nv_fp8x2_e5m2 = peakgate::NarrowPair<__nv_fp8_e5m2, __nv_fp8x2_storage_t>;
using __nv_fp8x2_e8m0 = peakgate::NarrowPair<__nv_fp8_e8m0, __nv_fp8x2_storage_t>;
using __nv_fp6x2_e2m3 = peakgate::NarrowPair<__nv_fp6_e2m3, __nv_fp6x2_storage_t>;
using __nv_fp6x2_e3m2 = peakgate::NarrowPair<__nv_fp6_e3m2, __nv_fp6x2_storage_t>;
using __nv_fp4x2_e2m1 = peakgate::NarrowPair<__nv_fp4_e2m1, __nv_fp4x2_storage_t>;
using __nv_fp8x4_e4m3 = peakgate::NarrowQuad<__nv_fp8_e4m3, __nv_fp8x4_storage_t>;
using __nv_fp8x4_e5m2 = peakgate::NarrowQuad<__nv_fp8_e5m2, __nv_fp8x4_storage_t>;
using __nv_fp8x4_e8m0 = peakgate::NarrowQuad<__nv_fp8_e8m0, __nv_fp8x4_storage_t>;
using __nv_fp6x4_e2m3 = peakgate::NarrowQuad<__nv_fp6_e2m3, __nv_fp6x4_storage_t>;
using __nv_fp6x4_e3m2 = peakgate::NarrowQuad<__nv_fp6_e3m2, __nv_fp6x4_storage_t>;
using __nv_fp4x4_e2m1 = peakgate::NarrowQuad<__nv_fp4_e2m1, __nv_fp4x4_storage_t>;

inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return kind == __NV_E4M3 ? __nv_fp8_e4m3::narrowed(x, saturate == __NV_SATFINITE)
                             : __nv_fp8_e5m2::narrowed(x, saturate == __NV_SATFINITE);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double_to_fp8(static_cast<double>(x), saturate, kind);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return static_cast<__nv_fp8x2_storage_t>(__nv_cvt_float_to_fp8(x.x, saturate, kind) |
                                             __nv_cvt_float_to_fp8(x.y, saturate, kind) << 8);
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return {__half(kind == __NV_E4M3 ? __nv_fp8_e4m3::widened(x) : __nv_fp8_e5m2::widened(x)).bits};
}
inline __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return static_cast<__nv_fp8x2_storage_t>(__nv_cvt_double_to_fp8(x.x, saturate, kind) |
                                             __nv_cvt_double_to_fp8(x.y, saturate, kind) << 8);
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return {__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(x), kind).x,
            __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(x >> 8), kind).x};
}
#define PEAKGATE_FP8_FROM_RAW(type, one, two, raw)                                                                     \
    inline __nv_fp8_storage_t one(raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {                 \
        return __nv_cvt_float_to_fp8(static_cast<float>(type::of_bits(x.x)), saturate, kind);                          \
    }                                                                                                                  \
    inline __nv_fp8x2_storage_t two(type##2_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {       \
        return static_cast<__nv_fp8x2_storage_t>(one({x.x}, saturate, kind) | one({x.y}, saturate, kind) << 8);        \
    }
PEAKGATE_FP8_FROM_RAW(__half, __nv_cvt_halfraw_to_fp8, __nv_cvt_halfraw2_to_fp8x2, __half_raw)
PEAKGATE_FP8_FROM_RAW(__nv_bfloat16, __nv_cvt_bfloat16raw_to_fp8, __nv_cvt_bfloat16raw2_to_fp8x2, __nv_bfloat16_raw)
inline __nv_bfloat16_raw __nv_cvt_fp8_to_bf16raw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return {__nv_bfloat16(kind == __NV_E4M3 ? __nv_fp8_e4m3::widened(x) : __nv_fp8_e5m2::widened(x)).bits};
}
inline __nv_bfloat162_raw __nv_cvt_fp8x2_to_bf162raw(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return {__nv_cvt_fp8_to_bf16raw(static_cast<__nv_fp8_storage_t>(x), kind).x,
            __nv_cvt_fp8_to_bf16raw(static_cast<__nv_fp8_storage_t>(x >> 8), kind).x};
}

// ---- e8m0 ----
#define PEAKGATE_E8M0_FROM(type, one, two, pair, ...)                                                                  \
    inline __nv_fp8_storage_t one(type x, __nv_saturation_t saturate, cudaRoundMode rounding) {                        \
        return __nv_fp8_e8m0::narrowed(__VA_ARGS__, saturate == __NV_SATFINITE, rounding == cudaRoundZero);            \
    }                                                                                                                  \
    inline __nv_fp8x2_storage_t two(pair x, __nv_saturation_t saturate, cudaRoundMode rounding) {                      \
        return static_cast<__nv_fp8x2_storage_t>(one(type{x.x}, saturate, rounding) | one(type{x.y}, saturate, rounding) << 8); \
    }
PEAKGATE_E8M0_FROM(float, __nv_cvt_float_to_e8m0, __nv_cvt_float2_to_e8m0x2, float2, static_cast<double>(x))
PEAKGATE_E8M0_FROM(double, __nv_cvt_double_to_e8m0, __nv_cvt_double2_to_e8m0x2, double2, x)
PEAKGATE_E8M0_FROM(__nv_bfloat16_raw, __nv_cvt_bfloat16raw_to_e8m0, __nv_cvt_bfloat162raw_to_e8m0x2, __nv_bfloat162_raw,
                   static_cast<double>(static_cast<float>(__nv_bfloat16::of_bits(x.x))))
inline __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t x) { return {__nv_bfloat16(__nv_fp8_e8m0::widened(x)).bits}; }
inline __nv_bfloat162_raw __nv_cvt_e8m0x2_to_bf162raw(__nv_fp8x2_storage_t x) {
    return {__nv_cvt_e8m0_to_bf16raw(static_cast<__nv_fp8_storage_t>(x)).x, __nv_cvt_e8m0_to_bf16raw(static_cast<__nv_fp8_storage_t>(x >> 8)).x};
}

// ---- fp6 and fp4, which are saturated always ----
namespace peakgate {
inline unsigned char narrowed(double x, __nv_fp6_interpretation_t kind, cudaRoundMode rounding) {
    const bool to_zero = rounding == cudaRoundZero;
    return kind == __NV_E2M3 ? __nv_fp6_e2m3::narrowed(x, true, to_zero) : __nv_fp6_e3m2::narrowed(x, true, to_zero);
}
inline float widened(unsigned x, __nv_fp6_interpretation_t kind) {
    const auto bits = static_cast<unsigned char>(x & 63);
    return kind == __NV_E2M3 ? __nv_fp6_e2m3::widened(bits) : __nv_fp6_e3m2::widened(bits);
}
inline unsigned char narrowed(double x, __nv_fp4_interpretation_t, cudaRoundMode rounding) {
    return __nv_fp4_e2m1::narrowed(x, true, rounding == cudaRoundZero);
}
inline float widened(unsigned x, __nv_fp4_interpretation_t) { return __nv_fp4_e2m1::widened(static_cast<unsigned char>(x & 15)); }
} // namespace peakgate
// Two numbers are `room` bits apart.
#define PEAKGATE_SMALL_FROM(fp, room, type, pair, one, two, ...)                                                                    \
    inline __nv_##fp##_storage_t one(type x, __nv_##fp##_interpretation_t kind, cudaRoundMode rounding) {                           \
        return peakgate::narrowed(__VA_ARGS__, kind, rounding);                                                                     \
    }                                                                                                                               \
    inline __nv_##fp##x2_storage_t two(pair x, __nv_##fp##_interpretation_t kind, cudaRoundMode rounding) {                         \
        return static_cast<__nv_##fp##x2_storage_t>(one(type{x.x}, kind, rounding) | one(type{x.y}, kind, rounding) << room);       \
    }
#define PEAKGATE_SMALL_TO(fp, room, number, raw, raw2, one, two)                                                                    \
    inline raw one(__nv_##fp##_storage_t x, __nv_##fp##_interpretation_t kind) { return {number(peakgate::widened(x, kind)).bits}; } \
    inline raw2 two(__nv_##fp##x2_storage_t x, __nv_##fp##_interpretation_t kind) {                                                 \
        return {number(peakgate::widened(x, kind)).bits, number(peakgate::widened(x >> room, kind)).bits};                          \
    }
#define PEAKGATE_SMALL(fp, room)                                                                                                    \
    PEAKGATE_SMALL_FROM(fp, room, double, double2, __nv_cvt_double_to_##fp, __nv_cvt_double2_to_##fp##x2, x)                        \
    PEAKGATE_SMALL_FROM(fp, room, float, float2, __nv_cvt_float_to_##fp, __nv_cvt_float2_to_##fp##x2, static_cast<double>(x))       \
    PEAKGATE_SMALL_FROM(fp, room, __half_raw, __half2_raw, __nv_cvt_halfraw_to_##fp, __nv_cvt_halfraw2_to_##fp##x2,                 \
                        static_cast<double>(static_cast<float>(__half::of_bits(x.x))))                                              \
    PEAKGATE_SMALL_FROM(fp, room, __nv_bfloat16_raw, __nv_bfloat162_raw, __nv_cvt_bfloat16raw_to_##fp,                              \
                        __nv_cvt_bfloat16raw2_to_##fp##x2, static_cast<double>(static_cast<float>(__nv_bfloat16::of_bits(x.x))))    \
    PEAKGATE_SMALL_TO(fp, room, __half, __half_raw, __half2_raw, __nv_cvt_##fp##_to_halfraw, __nv_cvt_##fp##x2_to_halfraw2)         \
    PEAKGATE_SMALL_TO(fp, room, __nv_bfloat16, __nv_bfloat16_raw, __nv_bfloat162_raw, __nv_cvt_##fp##_to_bf16raw,                   \
                      __nv_cvt_##fp##x2_to_bf162raw)
PEAKGATE_SMALL(fp6, 8)
PEAKGATE_SMALL(fp4, 4)

// ---- PTX's conversions of two numbers in one register ----
namespace peakgate_ptx {
template <class T> inline uint64_t narrow_pair(float high, float low, bool relu, bool saturates, bool to_zero) {
    const auto one = [=](float x) {
        return static_cast<uint64_t>(T::narrowed(static_cast<double>(relu && x <= 0 ? 0.0f : x), saturates, to_zero));
    };
    return one(high) << T::room | one(low);
}
template <class T, class H> inline peakgate::Half2<H> wide_pair(uint64_t from, bool relu) {
    const auto one = [=](uint64_t bits) {
        const float x = T::widened(static_cast<unsigned char>(bits & (2 * T::minus - 1)));
        return H(relu && x <= 0 ? 0.0f : x);
    };
    return {one(from), one(from >> T::room)};
}
} // namespace peakgate_ptx
