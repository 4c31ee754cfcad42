// fp8 as cuda_fp8.h has it: conversions to nearest even, saturating to the largest finite number. Included in its place.
#pragma once

#include "cuda_half.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace peakgate {

// `mantissa` bits of 7, the rest is the exponent. Of E4M3 the largest exponent is one of numbers, but for NaN.
template <int mantissa> struct Fp8 {
    static constexpr int bias = mantissa == 3 ? 7 : 15;
    static constexpr unsigned largest = mantissa == 3 ? 0x7e : 0x7b, not_a_number = 0x7f;
    static constexpr unsigned beyond = mantissa == 3 ? 0x7f : 0x7c; // without saturation

    static unsigned char narrowed(double value, bool saturates) {
        if (value != value) return not_a_number;
        const unsigned sign = signbit(value) ? 0x80 : 0;
        const double magnitude = fabs(value);
        int exponent = 1 - bias;
        while (exponent < 16 && magnitude >= ldexp(1.0, exponent + 1)) ++exponent;
        const double steps = rint(ldexp(magnitude, mantissa - exponent)); // of the last place
        const double encoded = steps + ldexp(static_cast<double>(exponent + bias - 1), mantissa);
        if (!(encoded <= largest)) return static_cast<unsigned char>(sign | (saturates ? largest : beyond));
        return static_cast<unsigned char>(sign | static_cast<unsigned>(encoded));
    }
    static float widened(unsigned char bits) {
        const int magnitude = bits & 0x7f, exponent = magnitude >> mantissa, fraction = magnitude & ((1 << mantissa) - 1);
        if (mantissa == 3 ? magnitude == 0x7f : magnitude > 0x7c) return NAN;
        const float value = mantissa == 2 && magnitude == 0x7c ? INFINITY
                            : exponent ? ldexpf(static_cast<float>(fraction + (1 << mantissa)), exponent - bias - mantissa)
                                       : ldexpf(static_cast<float>(fraction), 1 - bias - mantissa);
        return bits & 0x80 ? -value : value;
    }

    __nv_fp8_storage_t __x;
    Fp8() = default;
    explicit Fp8(float value) : __x(narrowed(static_cast<double>(value), true)) {}
    explicit Fp8(double value) : __x(narrowed(value, true)) {}
    explicit Fp8(int value) : __x(narrowed(value, true)) {}
    explicit Fp8(__half value) : Fp8(static_cast<float>(value)) {}
    explicit Fp8(__nv_bfloat16 value) : Fp8(static_cast<float>(value)) {}
    operator float() const { return widened(__x); }
    explicit operator __half() const { return __half(widened(__x)); }
};

} // namespace peakgate

using __nv_fp8_e4m3 = peakgate::Fp8<3>;
using __nv_fp8_e5m2 = peakgate::Fp8<2>;

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
