// The mathematical functions that CUDA provides without an include. Declared here instead of including <math.h>, which
// takes a third of a second per file in C++.
#pragma once

// ---- libm: the double function, its float variant, and the overload for float ----
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

// Functions of libm without an overload for float, or with an integer result or second operand.
#define PEAKGATE_MATH_OF(result, name, ...)                                                                            \
    extern "C" result name(double __VA_ARGS__) noexcept;                                                               \
    extern "C" result name##f(float __VA_ARGS__) noexcept;
#define PEAKGATE_MATH_BOTH(name, ...)                                                                                  \
    extern "C" double name(double __VA_ARGS__) noexcept;                                                               \
    extern "C" float name##f(float __VA_ARGS__) noexcept;
PEAKGATE_MATH_BOTH(exp10)
PEAKGATE_MATH_BOTH(j0)
PEAKGATE_MATH_BOTH(j1)
PEAKGATE_MATH_BOTH(y0)
PEAKGATE_MATH_BOTH(y1)
PEAKGATE_MATH_BOTH(logb)
PEAKGATE_MATH_BOTH(nearbyint)
PEAKGATE_MATH_BOTH(scalbn, , int)
PEAKGATE_MATH_BOTH(scalbln, , long)
PEAKGATE_MATH_BOTH(frexp, , int*)
PEAKGATE_MATH_OF(int, ilogb)
PEAKGATE_MATH_OF(long, lrint)
PEAKGATE_MATH_OF(long, lround)
PEAKGATE_MATH_OF(long long, llrint)
PEAKGATE_MATH_OF(long long, llround)
extern "C" double jn(int, double) noexcept;
extern "C" float jnf(int, float) noexcept;
extern "C" double yn(int, double) noexcept;
extern "C" float ynf(int, float) noexcept;
extern "C" double remquo(double, double, int*) noexcept;
extern "C" float remquof(float, float, int*) noexcept;
extern "C" double modf(double, double*) noexcept;
extern "C" float modff(float, float*) noexcept;
extern "C" double nan(const char*) noexcept;
extern "C" float nanf(const char*) noexcept;
extern "C" long labs(long) noexcept;
inline float frexp(float x, int* power) { return frexpf(x, power); }
inline float modf(float x, float* whole) { return modff(x, whole); }
inline float logb(float x) { return logbf(x); }
inline float nearbyint(float x) { return nearbyintf(x); }
inline int ilogb(float x) { return ilogbf(x); }
inline long lrint(float x) { return lrintf(x); }
inline long lround(float x) { return lroundf(x); }
inline long long llrint(float x) { return llrintf(x); }
inline long long llround(float x) { return llroundf(x); }
inline float scalbn(float x, int n) { return scalbnf(x, n); }
inline float exp10(float x) { return exp10f(x); }

// pow of other types: float if both are float or int, as in nvcc, otherwise double.
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
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
inline float rhypotf(float x, float y) { return 1.0f / hypotf(x, y); }
// Exact for multiples of one half: the angle is reduced to a quarter turn first.
inline double sinpi(double x) {
    const double turned = fmod(fabs(x), 2.0), half = turned >= 1 ? turned - 1 : turned;
    const double size = sin(3.14159265358979323846 * (half > 0.5 ? 1 - half : half));
    return copysign(turned >= 1 ? -size : size, (turned >= 1) != (x < 0) ? -1.0 : 1.0);
}
inline double cospi(double x) {
    const double turned = fmod(fabs(x), 2.0), half = turned > 1 ? 2 - turned : turned;
    return half > 0.5 ? -sin(3.14159265358979323846 * (half - 0.5)) : half == 0.5 ? 0 : cos(3.14159265358979323846 * half);
}
inline float sinpif(float x) { return static_cast<float>(sinpi(static_cast<double>(x))); }
inline float cospif(float x) { return static_cast<float>(cospi(static_cast<double>(x))); }
inline void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
inline void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
inline float __sin2pif(float x) { return sinpif(2 * x); }
inline float __cos2pif(float x) { return cospif(2 * x); }
inline void __sincos2pif(float x, float* s, float* c) { sincospif(2 * x, s, c); }
inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
inline float normcdff(float x) { return static_cast<float>(normcdf(static_cast<double>(x))); }
inline double erfcx(double x) { // by its asymptotic series if erfc is too small
    if (x < 25) return exp(x * x) * erfc(x);
    return 0.56418958354775628695 / x * (1 - 0.5 / (x * x) * (1 - 1.5 / (x * x)));
}
inline float erfcxf(float x) { return static_cast<float>(erfcx(static_cast<double>(x))); }
// Newton's method from an estimate accurate to three digits.
inline double erfcinv(double x) {
    if (!(x > 0 && x < 2)) return x == 0 ? __builtin_inf() : x == 2 ? -__builtin_inf() : __builtin_nan("");
    if (x > 1) return -erfcinv(2 - x);
    const double t = sqrt(-2 * log(x / 2));
    double y = 0.70710678118654752440 * (t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                                                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
    for (int step = 0; step < 4; ++step) {
        const double off = (erfc(y) - x) / (1.12837916709551257390 * exp(-y * y));
        y += off / (1 + y * off);
    }
    return y;
}
inline double erfinv(double x) {
    if (fabs(x) > 0.5) return copysign(erfcinv(1 - fabs(x)), x);
    double y = 0.88622692545275801365 * x;
    for (int step = 0; step < 5; ++step) {
        const double off = (erf(y) - x) / (1.12837916709551257390 * exp(-y * y));
        y -= off / (1 + y * off);
    }
    return y;
}
inline double normcdfinv(double x) { return -1.41421356237309504880 * erfcinv(2 * x); }
inline float erfcinvf(float x) { return static_cast<float>(erfcinv(static_cast<double>(x))); }
inline float erfinvf(float x) { return static_cast<float>(erfinv(static_cast<double>(x))); }
inline float normcdfinvf(float x) { return static_cast<float>(normcdfinv(static_cast<double>(x))); }
// By its power series, whose terms are positive.
inline double peakgate_bessel_i(int order, double x) {
    double term = order ? x / 2 : 1, sum = term;
    for (int k = 1; fabs(term) > 1e-17 * fabs(sum); ++k) sum += term *= x * x / (4.0 * k * (k + order));
    return sum;
}
inline double cyl_bessel_i0(double x) { return peakgate_bessel_i(0, x); }
inline double cyl_bessel_i1(double x) { return peakgate_bessel_i(1, x); }
inline float cyl_bessel_i0f(float x) { return static_cast<float>(cyl_bessel_i0(static_cast<double>(x))); }
inline float cyl_bessel_i1f(float x) { return static_cast<float>(cyl_bessel_i1(static_cast<double>(x))); }
// Length of a vector, without intermediate overflow.
inline double norm3d(double a, double b, double c) { return hypot(hypot(a, b), c); }
inline double norm4d(double a, double b, double c, double d) { return hypot(hypot(a, b), hypot(c, d)); }
inline double norm(int n, const double* values) {
    double length = 0;
    for (int i = 0; i < n; ++i) length = hypot(length, values[i]);
    return length;
}
inline float normf(int n, const float* values) {
    double length = 0;
    for (int i = 0; i < n; ++i) length = hypot(length, static_cast<double>(values[i]));
    return static_cast<float>(length);
}
inline float norm3df(float a, float b, float c) { return static_cast<float>(norm3d(a, b, c)); }
inline float norm4df(float a, float b, float c, float d) { return static_cast<float>(norm4d(a, b, c, d)); }
inline double rnorm(int n, const double* values) { return 1 / norm(n, values); }
inline float rnormf(int n, const float* values) { return 1 / normf(n, values); }
inline double rnorm3d(double a, double b, double c) { return 1 / norm3d(a, b, c); }
inline float rnorm3df(float a, float b, float c) { return static_cast<float>(1 / norm3d(a, b, c)); }
inline double rnorm4d(double a, double b, double c, double d) { return 1 / norm4d(a, b, c, d); }
inline float rnorm4df(float a, float b, float c, float d) { return static_cast<float>(1 / norm4d(a, b, c, d)); }
inline float fdividef(float x, float y) { return x / y; }
inline double fdivide(double x, double y) { return x / y; }
inline float fdivide(float x, float y) { return x / y; }
template <class T> constexpr bool signbit(T x) { return __builtin_signbit(x); }
template <class T> constexpr bool isnan(T x) { return __builtin_isnan(x); }
template <class T> constexpr bool isinf(T x) { return __builtin_isinf(x); }
template <class T> constexpr bool isfinite(T x) { return __builtin_isfinite(x); }
enum { FP_NAN, FP_INFINITE, FP_ZERO, FP_SUBNORMAL, FP_NORMAL };
template <class T> constexpr int fpclassify(T x) {
    return __builtin_fpclassify(FP_NAN, FP_INFINITE, FP_NORMAL, FP_SUBNORMAL, FP_ZERO, x);
}
#define PEAKGATE_CLASSIFY(name, builtin)                                                                               \
    constexpr int name(double x) { return builtin(x); }                                                                \
    constexpr int name##f(float x) { return builtin(x); }
PEAKGATE_CLASSIFY(__signbit, __builtin_signbit)
PEAKGATE_CLASSIFY(__isnan, __builtin_isnan)
PEAKGATE_CLASSIFY(__isinf, __builtin_isinf)
PEAKGATE_CLASSIFY(__finite, __builtin_isfinite)

// ---- min and max: mixed types are compared in their common type; of a number and a NaN the result is the number ----
template <class A, class B> constexpr auto min(A a, B b) {
    using Common = decltype(true ? a : b);
    return static_cast<Common>(b) < static_cast<Common>(a) ? static_cast<Common>(b) : static_cast<Common>(a);
}
template <class A, class B> constexpr auto max(A a, B b) {
    using Common = decltype(true ? a : b);
    return static_cast<Common>(a) < static_cast<Common>(b) ? static_cast<Common>(b) : static_cast<Common>(a);
}
// No templates, so that they precede those of a namespace that the kernel uses, as CUDA's do.
#define PEAKGATE_MIN_MAX(A, B, Common)                                                                                 \
    constexpr Common min(A a, B b) {                                                                                   \
        return static_cast<Common>(b) < static_cast<Common>(a) ? static_cast<Common>(b) : static_cast<Common>(a);      \
    }                                                                                                                  \
    constexpr Common max(A a, B b) {                                                                                   \
        return static_cast<Common>(a) < static_cast<Common>(b) ? static_cast<Common>(b) : static_cast<Common>(a);      \
    }
#define PEAKGATE_MIN_MAX_OF(T)                                                                                         \
    PEAKGATE_MIN_MAX(T, T, T)                                                                                          \
    PEAKGATE_MIN_MAX(unsigned T, unsigned T, unsigned T)                                                               \
    PEAKGATE_MIN_MAX(T, unsigned T, unsigned T)                                                                        \
    PEAKGATE_MIN_MAX(unsigned T, T, unsigned T)
PEAKGATE_MIN_MAX_OF(int)
PEAKGATE_MIN_MAX_OF(long)
PEAKGATE_MIN_MAX_OF(long long)
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

#include "cuda_intrinsics.h"

// ---- names that nvcc provides without an include, through the host's headers ----
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
