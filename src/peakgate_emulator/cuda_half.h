// __half and __nv_bfloat16: 16 bits each, computed in float or double and rounded once, to nearest even. With 24 bits
// against 11 and 8, + - * / and sqrt in float are exact before that rounding; a fused multiply-add goes through double,
// rounded to odd. Included in place of cuda_fp16.h and cuda_bf16.h.
#pragma once

struct __half_raw {
    unsigned short x;
};
struct __nv_bfloat16_raw {
    unsigned short x;
};
struct __half2_raw {
    unsigned short x, y;
};

namespace peakgate {

// A double in a format of `mantissa` and `exponent` bits.
template <int mantissa, int exponent> inline unsigned short narrowed(double value, Rounding rounding = TO_NEAREST) {
    const auto bits = __builtin_bit_cast(unsigned long long, value);
    const unsigned sign = static_cast<unsigned>(bits >> 63);
    constexpr unsigned infinity = ((1u << exponent) - 1) << mantissa;
    constexpr int bias = (1 << (exponent - 1)) - 1;
    if (value != value) return 0x7fff;
    const int biased = static_cast<int>(bits >> 52 & 0x7ff);
    unsigned encoded = infinity;
    if (biased != 0x7ff) {
        const int least = 1 - bias;
        const int power = biased - 1023 < least ? least : biased - 1023;
        const int dropped = 52 - mantissa + (power - (biased - 1023));
        const unsigned long long significand = biased ? (bits & ((1ull << 52) - 1)) | 1ull << 52 : 0;
        // More dropped bits only matter by being nonzero.
        const unsigned long long kept = dropped < 60 ? significand >> dropped : 0;
        const unsigned long long rest = dropped < 60 ? significand & ((1ull << dropped) - 1) : significand != 0;
        const unsigned long long half = dropped < 60 ? 1ull << (dropped - 1) : 2;
        const bool away = rounding == TO_NEAREST ? rest > half || (rest == half && kept & 1)
                                                 : rest && rounding == (sign ? DOWN : UP);
        const unsigned long long whole = (static_cast<unsigned long long>(power - least) << mantissa) + kept + away;
        encoded = whole < infinity ? static_cast<unsigned>(whole) : infinity;
        if (whole >= infinity && (rounding == TO_ZERO || rounding == (sign ? UP : DOWN))) encoded = infinity - 1;
    }
    return static_cast<unsigned short>(encoded | sign << 15);
}

template <int mantissa, int exponent> __attribute__((always_inline)) inline float widened(unsigned short bits) {
    const unsigned sign = static_cast<unsigned>(bits & 0x8000u) << 16;
    const unsigned magnitude = bits & 0x7fffu;
    if (exponent == 8) return __builtin_bit_cast(float, static_cast<unsigned>(bits) << 16);
    if (magnitude >> mantissa == (1u << exponent) - 1)
        return __builtin_bit_cast(float, sign | 0x7f800000u | (magnitude & ((1u << mantissa) - 1)) << (23 - mantissa));
    if (magnitude >> mantissa == 0) { // zero and subnormal numbers
        const float small = static_cast<float>(magnitude) * 0x1p-24f;
        return sign ? -small : small;
    }
    return __builtin_bit_cast(float, sign | ((magnitude << (23 - mantissa)) + ((127u - 15u) << 23)));
}

// a * b + c with its last bit set if it is inexact, so that the rounding that follows is right.
inline double fused(float a, float b, float c) {
    const double product = static_cast<double>(a) * b, sum = product + c;
    const double part = sum - product, error = (product - (sum - part)) + (c - part);
    auto bits = __builtin_bit_cast(unsigned long long, sum);
    if (!(error != 0) || error - error != 0 || bits & 1) return sum;
    bits += (error > 0) == (sum > 0) ? 1ull : -1ull;
    return __builtin_bit_cast(double, bits);
}

// An integer as a double whose last bit is set where it is inexact, so that the rounding that follows is right.
template <class T> inline double to_odd(T a) {
    const __int128 wide = a;
    const auto size = static_cast<unsigned long long>(wide < 0 ? -wide : wide);
    const unsigned long long kept = size >> 53 ? (size & ~2047ull) | (size & 2047 ? 2048 : 0) : size;
    return wide < 0 ? -static_cast<double>(kept) : static_cast<double>(kept);
}

template <int mantissa> struct Raw {
    using type = __half_raw;
};
template <> struct Raw<7> {
    using type = __nv_bfloat16_raw;
};

template <int mantissa, int exponent> struct Half {
    using Raw = typename peakgate::Raw<mantissa>::type;
    unsigned short bits;
    Half() = default;
    Half(float value) : bits(narrowed<mantissa, exponent>(static_cast<double>(value))) {}
    Half(double value) : bits(narrowed<mantissa, exponent>(value)) {}
    Half(short value) : Half(static_cast<double>(value)) {}
    Half(unsigned short value) : Half(static_cast<double>(value)) {}
    Half(int value) : Half(static_cast<double>(value)) {}
    Half(unsigned value) : Half(static_cast<double>(value)) {}
    Half(long long value) : Half(static_cast<double>(value)) {}
    Half(unsigned long long value) : Half(static_cast<double>(value)) {}
    constexpr Half(Raw raw) : bits(raw.x) {}
    constexpr operator Raw() const { return {bits}; }
    static Half of_bits(unsigned short given) {
        Half made;
        made.bits = given;
        return made;
    }
    static Half rounded(double value, Rounding rounding) { return of_bits(narrowed<mantissa, exponent>(value, rounding)); }
    operator float() const { return widened<mantissa, exponent>(bits); }
    explicit operator int() const { return static_cast<int>(static_cast<float>(*this)); }
    explicit operator bool() const { return (bits & 0x7fffu) != 0; }
};

template <class T> struct alignas(4) Half2 {
    T x, y;
    Half2() = default;
    constexpr Half2(T x_, T y_) : x(x_), y(y_) {}
    constexpr Half2(__half2_raw raw) : x(typename T::Raw{raw.x}), y(typename T::Raw{raw.y}) {}
    constexpr operator __half2_raw() const { return {x.bits, y.bits}; }
};

// Declared in the namespace where templates, such as atomics, look them up.
template <class T> inline Half2<T> operator+(Half2<T> a, Half2<T> b) { return {T(a.x + b.x), T(a.y + b.y)}; }
template <class T> inline Half2<T> operator-(Half2<T> a, Half2<T> b) { return {T(a.x - b.x), T(a.y - b.y)}; }
template <class T> inline bool operator==(Half2<T> a, Half2<T> b) { return a.x == b.x && a.y == b.y; }

} // namespace peakgate

using __nv_bfloat162_raw = __half2_raw;
using __half = peakgate::Half<10, 5>;
using __nv_bfloat16 = peakgate::Half<7, 8>;
using __half2 = peakgate::Half2<__half>;
using __nv_bfloat162 = peakgate::Half2<__nv_bfloat16>;
using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

// ---- functions of both types with the same names ----
#define PEAKGATE_HALF_OPERATOR(type, op)                                                                               \
    inline type operator op(type a, type b) { return type(static_cast<float>(a) op static_cast<float>(b)); }           \
    inline type& operator op##=(type& a, type b) { return a = a op b; }                                                \
    inline type##2 operator op(type##2 a, type##2 b) { return {a.x op b.x, a.y op b.y}; }                              \
    inline type##2 & operator op##=(type##2 & a, type##2 b) { return a = a op b; }
#define PEAKGATE_HALF_BINARY(type, name, ...)                                                                          \
    inline type name(type a, type b) { return __VA_ARGS__; }                                                           \
    inline type##2 name##2(type##2 a, type##2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }
#define PEAKGATE_HALF_BINARY_2(type, name, name2, ...)                                                                 \
    inline type name(type a, type b) { return __VA_ARGS__; }                                                           \
    inline type##2 name2(type##2 a, type##2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }
#define PEAKGATE_HALF_SATURATED(type, name, ...)                                                                       \
    PEAKGATE_HALF_BINARY_2(type, name##_sat, name##2_sat, type(__saturatef(__VA_ARGS__)))
#define PEAKGATE_HALF_COMPARE(type, name, both, op)                                                               \
    inline bool operator op(type a, type b) { return static_cast<float>(a) op static_cast<float>(b); }                 \
    inline bool name(type a, type b) { return a op b; }                                                                \
    inline type##2 name##2(type##2 a, type##2 b) { return {type(a.x op b.x ? 1 : 0), type(a.y op b.y ? 1 : 0)}; }      \
    inline bool both(type##2 a, type##2 b) { return a.x op b.x && a.y op b.y; }                                        \
    inline unsigned name##2_mask(type##2 a, type##2 b) { return (a.x op b.x ? 0xffffu : 0u) | (a.y op b.y ? 0xffff0000u : 0u); }
// The same, true if one operand is a NaN.
#define PEAKGATE_HALF_UNORDERED(type, name, both, op)                                                                  \
    inline bool name(type a, type b) { return __hisnan(a) || __hisnan(b) || a op b; }                                  \
    inline type##2 name##2(type##2 a, type##2 b) { return {type(name(a.x, b.x) ? 1 : 0), type(name(a.y, b.y) ? 1 : 0)}; } \
    inline bool both(type##2 a, type##2 b) { return name(a.x, b.x) && name(a.y, b.y); }                                \
    inline unsigned name##2_mask(type##2 a, type##2 b) {                                                               \
        return (name(a.x, b.x) ? 0xffffu : 0u) | (name(a.y, b.y) ? 0xffff0000u : 0u);                                  \
    }
// Functions of one number, computed in float: h<name> and h2<name>.
#define PEAKGATE_HALF_UNARY(type, name, ...)                                                                           \
    inline type h##name(type a) {                                                                                      \
        const float x = a;                                                                                             \
        return type(__VA_ARGS__);                                                                                      \
    }                                                                                                                  \
    inline type##2 h2##name(type##2 a) { return {h##name(a.x), h##name(a.y)}; }

#define PEAKGATE_HALF(type)                                                                                            \
    PEAKGATE_HALF_OPERATOR(type, +)                                                                                    \
    inline bool __hisnan(type a) { return isnan(static_cast<float>(a)); }                                              \
    inline type##2 __hisnan2(type##2 a) { return {type(__hisnan(a.x) ? 1 : 0), type(__hisnan(a.y) ? 1 : 0)}; }         \
    PEAKGATE_HALF_OPERATOR(type, -)                                                                                    \
    PEAKGATE_HALF_OPERATOR(type, *)                                                                                    \
    PEAKGATE_HALF_OPERATOR(type, /)                                                                                    \
    PEAKGATE_HALF_BINARY(type, __hadd, a + b)                                                                          \
    PEAKGATE_HALF_BINARY(type, __hsub, a - b)                                                                          \
    PEAKGATE_HALF_BINARY(type, __hmul, a * b)                                                                          \
    inline type __hadd_rn(type a, type b) { return a + b; }                                                            \
    inline type##2 __hadd2_rn(type##2 a, type##2 b) { return a + b; }                                                  \
    inline type __hsub_rn(type a, type b) { return a - b; }                                                            \
    inline type##2 __hsub2_rn(type##2 a, type##2 b) { return a - b; }                                                  \
    inline type __hmul_rn(type a, type b) { return a * b; }                                                            \
    inline type##2 __hmul2_rn(type##2 a, type##2 b) { return a * b; }                                                  \
    PEAKGATE_HALF_SATURATED(type, __hadd, a + b)                                                                       \
    PEAKGATE_HALF_SATURATED(type, __hsub, a - b)                                                                       \
    PEAKGATE_HALF_SATURATED(type, __hmul, a * b)                                                                       \
    PEAKGATE_HALF_BINARY_2(type, __hmax_nan, __hmax2_nan, __hisnan(a) || __hisnan(b) ? type(NAN) : type(fmaxf(a, b)))  \
    PEAKGATE_HALF_BINARY_2(type, __hmin_nan, __hmin2_nan, __hisnan(a) || __hisnan(b) ? type(NAN) : type(fminf(a, b)))  \
    PEAKGATE_HALF_BINARY(type, __hmax, type(fmaxf(a, b)))                                                              \
    PEAKGATE_HALF_BINARY(type, __hmin, type(fminf(a, b)))                                                              \
    inline type __hdiv(type a, type b) { return a / b; }                                                               \
    inline type##2 __h2div(type##2 a, type##2 b) { return a / b; }                                                     \
    inline type __hfma(type a, type b, type c) { return type(peakgate::fused(a, b, c)); }                              \
    inline type##2 __hfma2(type##2 a, type##2 b, type##2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; } \
    inline type __hfma_sat(type a, type b, type c) { return type(__saturatef(__hfma(a, b, c))); }                      \
    inline type __hfma_relu(type a, type b, type c) {                                                                  \
        const float fused = __hfma(a, b, c);                                                                           \
        return fused < 0 ? type(0) : type(fused);                                                                      \
    }                                                                                                                  \
    inline type##2 __hfma2_sat(type##2 a, type##2 b, type##2 c) {                                                      \
        return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)};                                                 \
    }                                                                                                                  \
    inline type##2 __hfma2_relu(type##2 a, type##2 b, type##2 c) {                                                     \
        return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)};                                               \
    }                                                                                                                  \
    inline type##2 __hcmadd(type##2 a, type##2 b, type##2 c) { /* of complex numbers */                                \
        return {__hfma(type::of_bits(a.y.bits ^ 0x8000), b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))};          \
    }                                                                                                                  \
    inline type __hneg(type a) { return type::of_bits(a.bits ^ 0x8000); }                                              \
    inline type __habs(type a) { return type::of_bits(a.bits & 0x7fff); }                                              \
    inline type##2 __hneg2(type##2 a) { return {__hneg(a.x), __hneg(a.y)}; }                                           \
    inline type##2 __habs2(type##2 a) { return {__habs(a.x), __habs(a.y)}; }                                           \
    inline type operator-(type a) { return __hneg(a); }                                                                \
    inline type operator+(type a) { return a; }                                                                        \
    inline type##2 operator-(type##2 a) { return __hneg2(a); }                                                         \
    inline type& operator++(type& a) { return a += type(1); }                                                          \
    inline int __hisinf(type a) { return isinf(static_cast<float>(a)) ? (a.bits >> 15 ? -1 : 1) : 0; }                 \
    PEAKGATE_HALF_COMPARE(type, __heq, __hbeq2, ==)                                                               \
    PEAKGATE_HALF_COMPARE(type, __hne, __hbne2, !=)                                                               \
    PEAKGATE_HALF_COMPARE(type, __hlt, __hblt2, <)                                                                \
    PEAKGATE_HALF_COMPARE(type, __hle, __hble2, <=)                                                               \
    PEAKGATE_HALF_COMPARE(type, __hgt, __hbgt2, >)                                                                \
    PEAKGATE_HALF_COMPARE(type, __hge, __hbge2, >=)                                                               \
    PEAKGATE_HALF_UNORDERED(type, __hequ, __hbequ2, ==)                                                                \
    PEAKGATE_HALF_UNORDERED(type, __hneu, __hbneu2, !=)                                                                \
    PEAKGATE_HALF_UNORDERED(type, __hltu, __hbltu2, <)                                                                 \
    PEAKGATE_HALF_UNORDERED(type, __hleu, __hbleu2, <=)                                                                \
    PEAKGATE_HALF_UNORDERED(type, __hgtu, __hbgtu2, >)                                                                 \
    PEAKGATE_HALF_UNORDERED(type, __hgeu, __hbgeu2, >=)                                                                \
    PEAKGATE_HALF_UNARY(type, tanh_approx, tanh(static_cast<double>(x)))                                               \
    PEAKGATE_HALF_UNARY(type, sqrt, sqrtf(x))                                                                          \
    PEAKGATE_HALF_UNARY(type, rsqrt, rsqrt(static_cast<double>(x)))                                                    \
    PEAKGATE_HALF_UNARY(type, rcp, 1.0 / static_cast<double>(x))                                                       \
    PEAKGATE_HALF_UNARY(type, exp, exp(static_cast<double>(x)))                                                        \
    PEAKGATE_HALF_UNARY(type, exp2, exp2(static_cast<double>(x)))                                                      \
    PEAKGATE_HALF_UNARY(type, exp10, pow(10.0, static_cast<double>(x)))                                                \
    PEAKGATE_HALF_UNARY(type, log, log(static_cast<double>(x)))                                                        \
    PEAKGATE_HALF_UNARY(type, log2, log2(static_cast<double>(x)))                                                      \
    PEAKGATE_HALF_UNARY(type, log10, log10(static_cast<double>(x)))                                                    \
    PEAKGATE_HALF_UNARY(type, sin, sin(static_cast<double>(x)))                                                        \
    PEAKGATE_HALF_UNARY(type, cos, cos(static_cast<double>(x)))                                                        \
    PEAKGATE_HALF_UNARY(type, tanh, tanh(static_cast<double>(x)))                                                      \
    PEAKGATE_HALF_UNARY(type, floor, floorf(x))                                                                        \
    PEAKGATE_HALF_UNARY(type, ceil, ceilf(x))                                                                          \
    PEAKGATE_HALF_UNARY(type, trunc, truncf(x))                                                                        \
    PEAKGATE_HALF_UNARY(type, rint, rintf(x))
PEAKGATE_HALF(__half)
PEAKGATE_HALF(__nv_bfloat16)

// Conversions to and from integers, through a double rounded to odd if the integer has more bits.
#define PEAKGATE_HALF_INTEGER(type, one, name, integer)                                                                \
    inline integer __##one##2##name##_rn(type a) { return peakgate::to_integer<integer>(rintf(a)); }                   \
    inline integer __##one##2##name##_rz(type a) { return peakgate::to_integer<integer>(truncf(a)); }                  \
    inline integer __##one##2##name##_rd(type a) { return peakgate::to_integer<integer>(floorf(a)); }                  \
    inline integer __##one##2##name##_ru(type a) { return peakgate::to_integer<integer>(ceilf(a)); }                   \
    inline type __##name##2##one##_rn(integer a) { return type::rounded(peakgate::to_odd(a), peakgate::TO_NEAREST); }  \
    inline type __##name##2##one##_rz(integer a) { return type::rounded(peakgate::to_odd(a), peakgate::TO_ZERO); }     \
    inline type __##name##2##one##_rd(integer a) { return type::rounded(peakgate::to_odd(a), peakgate::DOWN); }        \
    inline type __##name##2##one##_ru(integer a) { return type::rounded(peakgate::to_odd(a), peakgate::UP); }

// ---- conversions, whose names contain the type in CUDA ----
// `one` and `two` are the names of a value and a pair: half and half2, bfloat16 and bfloat162.
#define PEAKGATE_HALF_CONVERSIONS(type, one, two, from_two)                                                            \
    inline type __float2##one(float a) { return type(a); }                                                             \
    inline type __float2##one##_rn(float a) { return type(a); }                                                        \
    inline type __float2##one##_rz(float a) { return type::rounded(a, peakgate::TO_ZERO); }                            \
    inline type __float2##one##_rd(float a) { return type::rounded(a, peakgate::DOWN); }                               \
    inline type __float2##one##_ru(float a) { return type::rounded(a, peakgate::UP); }                                 \
    inline type __double2##one(double a) { return type(a); }                                                           \
    PEAKGATE_HALF_INTEGER(type, one, int, int)                                                                         \
    PEAKGATE_HALF_INTEGER(type, one, uint, unsigned)                                                                   \
    PEAKGATE_HALF_INTEGER(type, one, short, short)                                                                     \
    PEAKGATE_HALF_INTEGER(type, one, ushort, unsigned short)                                                           \
    PEAKGATE_HALF_INTEGER(type, one, ll, long long)                                                                    \
    PEAKGATE_HALF_INTEGER(type, one, ull, unsigned long long)                                                          \
    inline signed char __##one##2char_rz(type a) { return peakgate::to_integer<signed char>(truncf(a)); }              \
    inline unsigned char __##one##2uchar_rz(type a) { return peakgate::to_integer<unsigned char>(truncf(a)); }         \
    inline float __##one##2float(type a) { return a; }                                                                 \
    inline unsigned short __##one##_as_ushort(type a) { return a.bits; }                                               \
    inline short __##one##_as_short(type a) { return static_cast<short>(a.bits); }                                     \
    inline type __ushort_as_##one(unsigned short a) { return type::of_bits(a); }                                       \
    inline type __short_as_##one(short a) { return type::of_bits(static_cast<unsigned short>(a)); }                    \
    inline type##2 __float2##two##_rn(float a) { return {type(a), type(a)}; }                                          \
    inline type##2 __floats2##two##_rn(float a, float b) { return {type(a), type(b)}; }                                \
    inline type##2 __float22##two##_rn(float2 a) { return {type(a.x), type(a.y)}; }                                    \
    inline float2 from_two(type##2 a) { return {a.x, a.y}; }                                                           \
    inline type##2 __##one##2##two(type a) { return {a, a}; }                                                          \
    inline float __low2float(type##2 a) { return a.x; }                                                                \
    inline float __high2float(type##2 a) { return a.y; }                                                               \
    inline type __low2##one(type##2 a) { return a.x; }                                                                 \
    inline type __high2##one(type##2 a) { return a.y; }                                                                \
    inline type##2 __low2##two(type##2 a) { return {a.x, a.x}; }                                                       \
    inline type##2 __high2##two(type##2 a) { return {a.y, a.y}; }                                                      \
    inline type##2 __lows2##two(type##2 a, type##2 b) { return {a.x, b.x}; }                                           \
    inline type##2 __highs2##two(type##2 a, type##2 b) { return {a.y, b.y}; }                                          \
    inline type##2 __lowhigh2highlow(type##2 a) { return {a.y, a.x}; }                                                 \
    inline type##2 __halves2##two(type a, type b) { return {a, b}; }                                                   \
    inline type##2 make_##two(type a, type b) { return {a, b}; }
PEAKGATE_HALF_CONVERSIONS(__half, half, half2, __half22float2)
PEAKGATE_HALF_CONVERSIONS(__nv_bfloat16, bfloat16, bfloat162, __bfloat1622float2)

// ---- for inline PTX: operations on 16-bit numbers and on pairs of them ----
#include "cuda_ptx_values.h"
namespace peakgate_ptx {
#define PEAKGATE_PTX_HALF(name, ...)                                                                                   \
    template <int m, int e> inline peakgate::Half<m, e> name(peakgate::Half<m, e> a) {                                 \
        using H = peakgate::Half<m, e>;                                                                                \
        const float x = a;                                                                                             \
        return H(__VA_ARGS__);                                                                                         \
    }                                                                                                                  \
    template <class H> inline peakgate::Half2<H> name(peakgate::Half2<H> a) { return {name(a.x), name(a.y)}; }
#define PEAKGATE_PTX_HALVES(name, ...)                                                                                 \
    template <int m, int e> inline peakgate::Half<m, e> name(peakgate::Half<m, e> a, peakgate::Half<m, e> b) {         \
        using H = peakgate::Half<m, e>;                                                                                \
        const float x = a, y = b;                                                                                      \
        return H(__VA_ARGS__);                                                                                         \
    }                                                                                                                  \
    template <class H> inline peakgate::Half2<H> name(peakgate::Half2<H> a, peakgate::Half2<H> b) {                    \
        return {name(a.x, b.x), name(a.y, b.y)};                                                                       \
    }
PEAKGATE_PTX_HALF(flushed, H::of_bits(a.bits & ((1 << e) - 1) << m ? a.bits : a.bits & 0x8000))
PEAKGATE_PTX_HALF(saturated, __saturatef(x))
PEAKGATE_PTX_HALF(rectified, x > 0 || x != x ? x : 0.0f)
PEAKGATE_PTX_HALF(magnitude, H::of_bits(a.bits & 0x7fff))
PEAKGATE_PTX_HALF(power_of_2, exp2(static_cast<double>(x)))
PEAKGATE_PTX_HALF(tangent, tanh(static_cast<double>(x)))
PEAKGATE_PTX_HALF(whole_rni, rintf(x))
PEAKGATE_PTX_HALF(whole_rzi, truncf(x))
PEAKGATE_PTX_HALF(whole_rmi, floorf(x))
PEAKGATE_PTX_HALF(whole_rpi, ceilf(x))
PEAKGATE_PTX_HALVES(min_number, x != x ? y : y != y ? x : fminf(x, y))
PEAKGATE_PTX_HALVES(max_number, x != x ? y : y != y ? x : fmaxf(x, y))
PEAKGATE_PTX_HALVES(min_or_nan, x != x || y != y ? NAN : fminf(x, y))
PEAKGATE_PTX_HALVES(max_or_nan, x != x || y != y ? NAN : fmaxf(x, y))

template <int m, int e>
inline peakgate::Half<m, e> fused(peakgate::Half<m, e> a, peakgate::Half<m, e> b, peakgate::Half<m, e> c) {
    return peakgate::Half<m, e>(peakgate::fused(a, b, c));
}
template <class H> inline peakgate::Half2<H> fused(peakgate::Half2<H> a, peakgate::Half2<H> b, peakgate::Half2<H> c) {
    return {fused(a.x, b.x, c.x), fused(a.y, b.y, c.y)};
}
template <class H> inline H narrowed(double a, peakgate::Rounding mode) { return H::rounded(a, mode); }
template <class T, int m, int e> inline T to_integer(peakgate::Half<m, e> a) { return peakgate::to_integer<T>(static_cast<float>(a)); }
} // namespace peakgate_ptx
