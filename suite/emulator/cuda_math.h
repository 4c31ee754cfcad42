// The arithmetic that CUDA offers without an include. Declared here rather than taken from <math.h>, which in C++ costs
// a third of a second a file.
#pragma once

// ---- libm: the double function, its float twin, and the overload for float ----
#define PEAKGATE_MATH_1(name)                                                                                          \
    extern "C" double name(double) noexcept;                                                                           \
    extern "C" float name##f(float) noexcept;                                                                          \
    inline float name(float x) { return name##f(x); }

#define PEAKGATE_MATH_2(name)                                                                                          \
    extern "C" double name(double, double) noexcept;                                                                   \
    extern "C" float name##f(float, float) noexcept;                                                                   \
    inline float name(float x, float y) { return name##f(x, y); }

PEAKGATE_MATH_1(acos)
PEAKGATE_MATH_1(acosh)
PEAKGATE_MATH_1(asin)
PEAKGATE_MATH_1(asinh)
PEAKGATE_MATH_1(atan)
PEAKGATE_MATH_1(atanh)
PEAKGATE_MATH_1(cbrt)
PEAKGATE_MATH_1(ceil)
PEAKGATE_MATH_1(cos)
PEAKGATE_MATH_1(cosh)
PEAKGATE_MATH_1(erf)
PEAKGATE_MATH_1(erfc)
PEAKGATE_MATH_1(exp)
PEAKGATE_MATH_1(exp2)
PEAKGATE_MATH_1(expm1)
PEAKGATE_MATH_1(fabs)
PEAKGATE_MATH_1(floor)
PEAKGATE_MATH_1(lgamma)
PEAKGATE_MATH_1(log)
PEAKGATE_MATH_1(log10)
PEAKGATE_MATH_1(log1p)
PEAKGATE_MATH_1(log2)
PEAKGATE_MATH_1(rint)
PEAKGATE_MATH_1(round)
PEAKGATE_MATH_1(sin)
PEAKGATE_MATH_1(sinh)
PEAKGATE_MATH_1(sqrt)
PEAKGATE_MATH_1(tan)
PEAKGATE_MATH_1(tanh)
PEAKGATE_MATH_1(tgamma)
PEAKGATE_MATH_1(trunc)
PEAKGATE_MATH_2(atan2)
PEAKGATE_MATH_2(copysign)
PEAKGATE_MATH_2(fdim)
PEAKGATE_MATH_2(fmax)
PEAKGATE_MATH_2(fmin)
PEAKGATE_MATH_2(fmod)
PEAKGATE_MATH_2(hypot)
PEAKGATE_MATH_2(pow)
PEAKGATE_MATH_2(remainder)
PEAKGATE_MATH_2(nextafter)

extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
extern "C" void sincosf(float, float*, float*) noexcept;
extern "C" void sincos(double, double*, double*) noexcept;
extern "C" int abs(int) noexcept;
extern "C" long long llabs(long long) noexcept;

extern "C" float exp10f(float) noexcept;
extern "C" double exp10(double) noexcept;
extern "C" int ilogbf(float) noexcept;
extern "C" long lrintf(float) noexcept;
extern "C" long lroundf(float) noexcept;
extern "C" float nearbyintf(float) noexcept;
extern "C" float frexpf(float, int*) noexcept;
extern "C" float modff(float, float*) noexcept;

// A power of other types: float where both are float or int, as nvcc has it, double otherwise.
inline float pow(float x, int y) { return powf(x, static_cast<float>(y)); }
inline double pow(double x, int y) { return pow(x, static_cast<double>(y)); }
inline double pow(float x, double y) { return pow(static_cast<double>(x), y); }
inline double pow(double x, float y) { return pow(x, static_cast<double>(y)); }
inline double pow(int x, int y) { return pow(static_cast<double>(x), static_cast<double>(y)); }
inline float ldexp(float x, int n) { return ldexpf(x, n); }
inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }
inline long abs(long x) { return x < 0 ? -x : x; }
inline long long abs(long long x) { return llabs(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline float rhypotf(float x, float y) { return 1.0f / hypotf(x, y); }
inline float sinpif(float x) { return static_cast<float>(sin(3.14159265358979323846 * fmod(static_cast<double>(x), 2.0))); }
inline float cospif(float x) { return static_cast<float>(cos(3.14159265358979323846 * fmod(static_cast<double>(x), 2.0))); }
inline float normcdff(float x) { return static_cast<float>(0.5 * erfc(-x * 0.70710678118654752440)); }
inline float fdividef(float x, float y) { return x / y; }
template <class T> constexpr bool signbit(T x) { return __builtin_signbit(x); }
template <class T> constexpr bool isnan(T x) { return __builtin_isnan(x); }
template <class T> constexpr bool isinf(T x) { return __builtin_isinf(x); }
template <class T> constexpr bool isfinite(T x) { return __builtin_isfinite(x); }

// ---- min and max: for mixed types in their common type, for floating types the number if the other is a NaN ----
template <class A, class B> constexpr auto min(A a, B b) {
    using Common = decltype(true ? a : b);
    return static_cast<Common>(b) < static_cast<Common>(a) ? static_cast<Common>(b) : static_cast<Common>(a);
}
template <class A, class B> constexpr auto max(A a, B b) {
    using Common = decltype(true ? a : b);
    return static_cast<Common>(a) < static_cast<Common>(b) ? static_cast<Common>(b) : static_cast<Common>(a);
}
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

inline unsigned umin(unsigned a, unsigned b) { return b < a ? b : a; }
inline unsigned umax(unsigned a, unsigned b) { return a < b ? b : a; }
inline long long llmin(long long a, long long b) { return b < a ? b : a; }
inline long long llmax(long long a, long long b) { return a < b ? b : a; }
inline unsigned long long ullmin(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
inline unsigned long long ullmax(unsigned long long a, unsigned long long b) { return a < b ? b : a; }

// ---- rounding ----
extern "C" int fesetround(int) noexcept;
namespace peakgate {
enum Rounding { TO_NEAREST, TO_ZERO, DOWN, UP };
// While it lives the processor rounds like that. What it computes goes through volatile variables, or it would be computed
// before or after.
struct Rounded {
#ifdef __aarch64__
    explicit Rounded(Rounding mode) { fesetround(mode == UP ? 0x400000 : mode == DOWN ? 0x800000 : mode ? 0xc00000 : 0); }
#else
    explicit Rounded(Rounding mode) { fesetround(mode == UP ? 0x800 : mode == DOWN ? 0x400 : mode ? 0xc00 : 0); }
#endif
    ~Rounded() { fesetround(0); }
};
} // namespace peakgate

// ---- intrinsics; the fast ones are as exact as the plain ones here ----
// Macros, because the C library has internal functions by some of these names.
#define __expf(x) expf(x)
#define __exp10f(x) powf(10.0f, x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
#define __sincosf(x, s, c) sincosf(x, s, c)

inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __frsqrt_rn(float a) { return rsqrtf(a); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float a) { return fminf(fmaxf(a, 0.0f), 1.0f); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }

inline int __float2int_rn(float a) { return static_cast<int>(rintf(a)); }
inline int __float2int_rz(float a) { return static_cast<int>(a); }
inline int __float2int_rd(float a) { return static_cast<int>(floorf(a)); }
inline int __float2int_ru(float a) { return static_cast<int>(ceilf(a)); }
inline float __int2float_rn(int a) { return static_cast<float>(a); }
inline float __uint2float_rn(unsigned a) { return static_cast<float>(a); }

inline int __float_as_int(float a) { return __builtin_bit_cast(int, a); }
inline unsigned __float_as_uint(float a) { return __builtin_bit_cast(unsigned, a); }
inline float __int_as_float(int a) { return __builtin_bit_cast(float, a); }
inline float __uint_as_float(unsigned a) { return __builtin_bit_cast(float, a); }
inline long long __double_as_longlong(double a) { return __builtin_bit_cast(long long, a); }
inline double __longlong_as_double(long long a) { return __builtin_bit_cast(double, a); }

inline float __double2float_rn(double a) { return static_cast<float>(a); }
inline int __double2int_rz(double a) { return static_cast<int>(a); }
inline unsigned __float2uint_rz(float a) { return static_cast<unsigned>(a); }
inline unsigned __float2uint_rn(float a) { return static_cast<unsigned>(rintf(a)); }

// Not the compilers' builtins: for processors that may lack the instruction, g++ makes them calls of a library.
inline int __popc(unsigned a) {
    a -= a >> 1 & 0x55555555u;
    a = (a & 0x33333333u) + (a >> 2 & 0x33333333u);
    return static_cast<int>(((a + (a >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
}
inline int __popcll(unsigned long long a) {
    return __popc(static_cast<unsigned>(a)) + __popc(static_cast<unsigned>(a >> 32));
}
inline int __clz(int a) { return a ? __builtin_clz(static_cast<unsigned>(a)) : 32; }
inline int __clzll(long long a) { return a ? __builtin_clzll(static_cast<unsigned long long>(a)) : 64; }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline int __ffsll(long long a) { return __builtin_ffsll(a); }
inline int __mul24(int a, int b) { return a * b; }
inline unsigned __umul24(unsigned a, unsigned b) { return a * b; }
inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}
// Four bytes out of eight; with its highest bit set, a selector spreads the sign of its byte.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selectors) {
    const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
    unsigned result = 0;
    for (int at = 0; at < 4; ++at) {
        const unsigned selector = selectors >> 4 * at & 15;
        const unsigned byte = static_cast<unsigned>(bytes >> 8 * (selector & 7)) & 255;
        result |= (selector & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * at;
    }
    return result;
}
inline int __dp4a(int a, int b, int sum) {
    for (int at = 0; at < 32; at += 8) sum += static_cast<signed char>(a >> at) * static_cast<signed char>(b >> at);
    return sum;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
    for (int at = 0; at < 32; at += 8) sum += (a >> at & 255) * (b >> at & 255);
    return sum;
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __brev(unsigned a) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (a >> bit & 1u) << (31 - bit);
    return reversed;
}
inline unsigned long long __brevll(unsigned long long a) {
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(a))) << 32 | __brev(static_cast<unsigned>(a >> 32));
}

// ---- what nvcc offers without an include, by way of the host's headers ----
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef long clock_t;
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF INFINITY
#define HUGE_VAL __builtin_inf()
namespace std {}
