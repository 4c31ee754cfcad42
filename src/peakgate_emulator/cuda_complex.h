// Complex numbers as cuComplex.h has them. Included in its place.
#pragma once

#define PEAKGATE_COMPLEX(type, real, made, suffix, magnitude)                                                          \
    inline type made(real x, real y) { return {x, y}; }                                                                \
    inline real cuCreal##suffix(type a) { return a.x; }                                                                \
    inline real cuCimag##suffix(type a) { return a.y; }                                                                \
    inline type cuConj##suffix(type a) { return {a.x, -a.y}; }                                                         \
    inline type cuCadd##suffix(type a, type b) { return {a.x + b.x, a.y + b.y}; }                                      \
    inline type cuCsub##suffix(type a, type b) { return {a.x - b.x, a.y - b.y}; }                                      \
    inline type cuCmul##suffix(type a, type b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }              \
    inline type cuCdiv##suffix(type a, type b) {                                                                       \
        const real scale = 1 / (magnitude(b.x, real(0)) + magnitude(b.y, real(0)));                                    \
        const real ax = a.x * scale, ay = a.y * scale, bx = b.x * scale, by = b.y * scale, s = 1 / (bx * bx + by * by); \
        return {(ax * bx + ay * by) * s, (ay * bx - ax * by) * s};                                                     \
    }                                                                                                                  \
    inline real cuCabs##suffix(type a) { return magnitude(a.x, a.y); }                                                 \
    inline type cuCfma##suffix(type a, type b, type c) {                                                               \
        return {a.x * b.x + c.x - a.y * b.y, a.x * b.y + c.y + a.y * b.x};                                             \
    }
using cuFloatComplex = float2;
using cuDoubleComplex = double2;
using cuComplex = cuFloatComplex;
PEAKGATE_COMPLEX(cuFloatComplex, float, make_cuFloatComplex, f, hypotf)
PEAKGATE_COMPLEX(cuDoubleComplex, double, make_cuDoubleComplex, , hypot)
inline cuComplex make_cuComplex(float x, float y) { return {x, y}; }
inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex a) { return {a.x, a.y}; }
inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex a) {
    return {static_cast<float>(a.x), static_cast<float>(a.y)};
}
