// Arithmetic and conversions with explicit rounding. Included if a source uses one.
#pragma once

#include "cuda_math.h"
#include "cuda_types.h"

// Arithmetic with explicit rounding.
namespace peakgate {
template <class T, class F, class... V> inline T rounded(Rounding mode, F computed, V... values) {
    const volatile T kept[] = {values...};
    const Rounded while_it_lives(mode);
    const volatile T result = computed(kept);
    return result;
}
} // namespace peakgate
#define PEAKGATE_UNPACKED(...) __VA_ARGS__
#define PEAKGATE_ROUNDED(name, mode, type, parameters, values, ...)                                                    \
    inline type name parameters {                                                                                      \
        auto computed = [](const volatile type* v) { return static_cast<type>(__VA_ARGS__); };                         \
        return peakgate::rounded<type>(peakgate::mode, computed, PEAKGATE_UNPACKED values);                            \
    }
#define PEAKGATE_ROUNDED_ALL(name, type, parameters, values, plain, ...)                                               \
    inline type name##_rn parameters { return plain; }                                                                 \
    PEAKGATE_ROUNDED(name##_rz, TO_ZERO, type, parameters, values, __VA_ARGS__)                                        \
    PEAKGATE_ROUNDED(name##_rd, DOWN, type, parameters, values, __VA_ARGS__)                                           \
    PEAKGATE_ROUNDED(name##_ru, UP, type, parameters, values, __VA_ARGS__)
#define PEAKGATE_ROUNDED_1(name, type, plain, ...) PEAKGATE_ROUNDED_ALL(name, type, (type a), (a), plain, __VA_ARGS__)
#define PEAKGATE_ROUNDED_2(name, type, op)                                                                             \
    PEAKGATE_ROUNDED_ALL(name, type, (type a, type b), (a, b), a op b, v[0] op v[1])
#define PEAKGATE_ROUNDED_3(name, type, function)                                                                       \
    PEAKGATE_ROUNDED_ALL(name, type, (type a, type b, type c), (a, b, c), function(a, b, c), function(v[0], v[1], v[2]))
PEAKGATE_ROUNDED_2(__fadd, float, +)
PEAKGATE_ROUNDED_2(__fsub, float, -)
PEAKGATE_ROUNDED_2(__fmul, float, *)
PEAKGATE_ROUNDED_2(__fdiv, float, /)
PEAKGATE_ROUNDED_3(__fmaf, float, fmaf)
PEAKGATE_ROUNDED_3(__fmaf_ieee, float, fmaf)
PEAKGATE_ROUNDED_1(__frcp, float, 1 / a, 1 / v[0])
PEAKGATE_ROUNDED_1(__fsqrt, float, sqrtf(a), sqrtf(v[0]))
PEAKGATE_ROUNDED_2(__dadd, double, +)
PEAKGATE_ROUNDED_2(__dsub, double, -)
PEAKGATE_ROUNDED_2(__dmul, double, *)
PEAKGATE_ROUNDED_2(__ddiv, double, /)
PEAKGATE_ROUNDED_3(__fma, double, fma)
PEAKGATE_ROUNDED_1(__drcp, double, 1 / a, 1 / v[0])
PEAKGATE_ROUNDED_1(__dsqrt, double, sqrt(a), sqrt(v[0]))
// Of two floats each.
#define PEAKGATE_ROUNDED_PAIRS(mode)                                                                                   \
    inline float2 __fadd2_##mode(float2 a, float2 b) { return {__fadd_##mode(a.x, b.x), __fadd_##mode(a.y, b.y)}; }     \
    inline float2 __fmul2_##mode(float2 a, float2 b) { return {__fmul_##mode(a.x, b.x), __fmul_##mode(a.y, b.y)}; }     \
    inline float2 __ffma2_##mode(float2 a, float2 b, float2 c) {                                                       \
        return {__fmaf_##mode(a.x, b.x, c.x), __fmaf_##mode(a.y, b.y, c.y)};                                            \
    }
PEAKGATE_ROUNDED_PAIRS(rn)
PEAKGATE_ROUNDED_PAIRS(rz)
PEAKGATE_ROUNDED_PAIRS(rd)
PEAKGATE_ROUNDED_PAIRS(ru)
// Conversions. Numbers out of range are clamped to the type's range, as in the instruction.
namespace peakgate {
template <class To, class From> inline To converted(From a, Rounding mode) {
    const volatile From kept = a;
    const Rounded while_it_lives(mode);
    const volatile To result = static_cast<To>(kept);
    return result;
}
} // namespace peakgate
#define PEAKGATE_TO_INTEGERS(from, type)                                                                               \
    PEAKGATE_TO_INTEGER(from, type, int, int)                                                                          \
    PEAKGATE_TO_INTEGER(from, type, uint, unsigned)                                                                    \
    PEAKGATE_TO_INTEGER(from, type, ll, long long)                                                                     \
    PEAKGATE_TO_INTEGER(from, type, ull, unsigned long long)
#define PEAKGATE_TO_INTEGER(from, type, name, to)                                                                      \
    inline to __##from##2##name##_rn(type a) { return peakgate::to_integer<to>(rint(a)); }                             \
    inline to __##from##2##name##_rz(type a) { return peakgate::to_integer<to>(trunc(a)); }                            \
    inline to __##from##2##name##_rd(type a) { return peakgate::to_integer<to>(floor(a)); }                            \
    inline to __##from##2##name##_ru(type a) { return peakgate::to_integer<to>(ceil(a)); }
PEAKGATE_TO_INTEGERS(float, float)
PEAKGATE_TO_INTEGERS(double, double)
#define PEAKGATE_FROM_INTEGER(name, from, type)                                                                        \
    inline type __##name##_rn(from a) { return static_cast<type>(a); }                                                 \
    inline type __##name##_rz(from a) { return peakgate::converted<type>(a, peakgate::TO_ZERO); }                      \
    inline type __##name##_rd(from a) { return peakgate::converted<type>(a, peakgate::DOWN); }                         \
    inline type __##name##_ru(from a) { return peakgate::converted<type>(a, peakgate::UP); }
PEAKGATE_FROM_INTEGER(int2float, int, float)
PEAKGATE_FROM_INTEGER(uint2float, unsigned, float)
PEAKGATE_FROM_INTEGER(ll2float, long long, float)
PEAKGATE_FROM_INTEGER(ull2float, unsigned long long, float)
PEAKGATE_FROM_INTEGER(ll2double, long long, double)
PEAKGATE_FROM_INTEGER(ull2double, unsigned long long, double)
PEAKGATE_FROM_INTEGER(double2float, double, float)
inline double __int2double_rn(int a) { return a; }
inline double __uint2double_rn(unsigned a) { return a; }
