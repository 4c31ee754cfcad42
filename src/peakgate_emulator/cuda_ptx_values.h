// Operations of inline PTX without a C++ operator. Included if a source has inline PTX.
#pragma once

#include "cuda_cpu.h"

namespace peakgate_ptx {

// ---- arithmetic that differs from C++'s operators ----
template <class T> inline T flushed(T a) { return a; }
inline float flushed(float a) { return __builtin_fabsf(a) < 0x1p-126f ? __builtin_copysignf(0, a) : a; }
template <class T> inline T saturated(T a) { return a > T(0) ? (a < T(1) ? a : T(1)) : T(0); } // NaN becomes 0
template <class T> inline T rectified(T a) { return a > T(0) || a != a ? a : T(0); }

template <class T> inline T fused(T a, T b, T c) { return fma(a, b, c); }
template <class T> inline T magnitude(T a) { return __builtin_fabs(a); }
template <class T> inline T with_sign(T a, T sign) { return static_cast<T>(__builtin_copysign(a, sign)); }
template <class T> inline T min_number(T a, T b) { return a != a ? b : b != b ? a : min(a, b); }
template <class T> inline T max_number(T a, T b) { return a != a ? b : b != b ? a : max(a, b); }
template <class T> inline T min_or_nan(T a, T b) { return a != a ? a : b != b ? b : min_number(a, b); }
template <class T> inline T max_or_nan(T a, T b) { return a != a ? a : b != b ? b : max_number(a, b); }
template <class T> inline bool is_finite(T a) { return __builtin_isfinite(a); }
template <class T> inline bool is_infinite(T a) { return __builtin_isinf(a); }
template <class T> inline bool is_notanumber(T a) { return a != a; }
template <class T> inline bool is_number(T a) { return a == a; }
// Zero is a normal number for testp, on an H200 too.
template <class T> inline bool is_normal(T a) { return a == 0 || __builtin_isnormal(a); }
template <class T> inline bool is_subnormal(T a) { return is_finite(a) && !is_normal(a); }

#define PEAKGATE_COMPARED(name, ...)                                                                                   \
    template <class T> inline bool compared_##name(T a, T b) { return __VA_ARGS__; }
PEAKGATE_COMPARED(eq, a == b)
PEAKGATE_COMPARED(ne, a < b || b < a)
PEAKGATE_COMPARED(lt, a < b)
PEAKGATE_COMPARED(le, a <= b)
PEAKGATE_COMPARED(gt, a > b)
PEAKGATE_COMPARED(ge, a >= b)
PEAKGATE_COMPARED(lo, a < b)
PEAKGATE_COMPARED(ls, a <= b)
PEAKGATE_COMPARED(hi, a > b)
PEAKGATE_COMPARED(hs, a >= b)
PEAKGATE_COMPARED(equ, !(a < b || b < a))
PEAKGATE_COMPARED(neu, a != b)
PEAKGATE_COMPARED(ltu, !(a >= b))
PEAKGATE_COMPARED(leu, !(a > b))
PEAKGATE_COMPARED(gtu, !(a <= b))
PEAKGATE_COMPARED(geu, !(a < b))
PEAKGATE_COMPARED(num, a == a && b == b)
PEAKGATE_COMPARED(nan, a != a || b != b)

using peakgate::clamped;
using peakgate::is_signed;
using peakgate::to_integer;
inline float whole_rni(float a) { return rintf(a); }
inline float whole_rzi(float a) { return truncf(a); }
inline float whole_rmi(float a) { return floorf(a); }
inline float whole_rpi(float a) { return ceilf(a); }
inline double whole_rni(double a) { return rint(a); }
inline double whole_rzi(double a) { return trunc(a); }
inline double whole_rmi(double a) { return floor(a); }
inline double whole_rpi(double a) { return ceil(a); }

// A float with 10 bits of mantissa, as used by tensor cores.
inline uint32_t tf32_of(float a, uint32_t added) {
    const uint32_t bits = __float_as_uint(a);
    if ((bits & 0x7f800000u) == 0x7f800000u) return bits & 0x7fffffu ? 0x7fffffffu : bits;
    return (bits + added) & ~0x1fffu;
}
inline uint32_t tf32_rna(float a) { return tf32_of(a, 0x1000u); }
inline uint32_t tf32_rn(float a) { return tf32_of(a, 0xfffu + (__float_as_uint(a) >> 13 & 1)); }
inline uint32_t tf32_rz(float a) { return tf32_of(a, 0); }

template <class T> inline T right(T a, uint32_t b) {
    if (b >= 8 * sizeof(T)) return a < 0 ? T(-1) : T(0);
    return a >> b;
}
template <class T> inline T high(T a, T b) {
    return static_cast<T>(static_cast<__int128>(a) * static_cast<__int128>(b) >> 8 * sizeof(T));
}
inline uint64_t high(uint64_t a, uint64_t b) { return __umul64hi(a, b); }
inline int64_t product24(int32_t a, int32_t b) { return static_cast<int64_t>(a << 8 >> 8) * (b << 8 >> 8); }
inline uint64_t product24(uint32_t a, uint32_t b) { return static_cast<uint64_t>(a & 0xffffff) * (b & 0xffffff); }
template <class T> inline uint32_t highest_bit(T a, bool as_shift) {
    const uint64_t from = a < 0 ? ~static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
    if (!from) return ~0u;
    const auto bit = static_cast<uint32_t>(63 - __builtin_clzll(from));
    return as_shift ? 8 * static_cast<uint32_t>(sizeof(T)) - 1 - bit : bit;
}
template <class T> inline T field(T a, uint32_t first, uint32_t count) {
    constexpr uint32_t width = 8 * sizeof(T);
    first &= 255;
    count &= 255;
    if (!count) return 0;
    const uint32_t last = first + count - 1 < width ? first + count - 1 : width - 1;
    if (first >= width) return is_signed<T> && a < 0 ? T(-1) : T(0);
    const uint32_t left = width - 1 - last;
    return static_cast<T>(static_cast<T>(a << left) >> (left + first));
}
template <class T> inline T inserted(T a, T b, uint32_t first, uint32_t count) {
    constexpr uint32_t width = 8 * sizeof(T);
    first &= 255;
    count &= 255;
    if (first >= width) return b;
    const T mask = static_cast<T>((count >= width ? ~T(0) : (T(1) << count) - 1) << first);
    return (a << first & mask) | (b & ~mask);
}
inline uint32_t mask_of(uint32_t first, uint32_t count) { return inserted(~0u, 0u, first > 255 ? 255 : first, count > 255 ? 255 : count); }
inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t result = 0;
    for (int bit = 0; bit < 32; ++bit)
        result |= (table >> ((a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)) & 1u) << bit;
    return result;
}
// The carry flag stays until the next instruction that writes it.
template <class T> __attribute__((no_sanitize("thread"))) T add_carry(T a, T b, bool takes, bool gives) {
    const auto sum = static_cast<unsigned __int128>(a) + b + (takes ? peakgate_carry : 0);
    if (gives) peakgate_carry = static_cast<unsigned>(sum >> 8 * sizeof(T)) & 1;
    return static_cast<T>(sum);
}
template <class T> __attribute__((no_sanitize("thread"))) T sub_carry(T a, T b, bool takes, bool gives) {
    const auto less = static_cast<unsigned __int128>(b) + (takes ? peakgate_carry : 0);
    if (gives) peakgate_carry = a < less;
    return static_cast<T>(a - less);
}
inline uint32_t extended(uint32_t a, uint32_t bits, bool clamps, bool is_signed) {
    const uint32_t kept = bits & 31;
    if (clamps && bits >= 32) return a;
    const uint32_t above = ~0u << kept;
    return (a & ~above) | (is_signed && kept && (a >> (kept - 1) & 1) ? above : 0);
}

// ---- video instructions ----
enum Video { ADD, SUB, AVRG, ABSDIFF, MIN, MAX };
inline int64_t video(Video what, int64_t a, int64_t b) {
    return what == ADD       ? a + b
           : what == SUB     ? a - b
           : what == AVRG    ? (a + b + (a + b >= 0)) >> 1
           : what == ABSDIFF ? (a < b ? b - a : a - b)
           : what == MIN     ? (b < a ? b : a)
                             : (a < b ? b : a);
}
// In each part of a word, whose types are those of the results and operands; or the sum of the results and `c`.
template <class D, class A, class B>
inline uint32_t video_lanes(Video what, uint32_t a, uint32_t b, uint32_t c, bool saturates, bool sums) {
    constexpr int width = 8 * sizeof(D);
    uint32_t result = sums ? c : 0;
    for (int at = 0; at < 32; at += width) {
        const int64_t part = video(what, static_cast<A>(a >> at), static_cast<B>(b >> at));
        const D fitted = saturates ? clamped<D>(part) : static_cast<D>(part);
        result += sums ? static_cast<uint32_t>(part) : (static_cast<uint32_t>(fitted) & (~0u >> (32 - width))) << at;
    }
    return result;
}
template <class A, class B, class F> inline uint32_t video_set(F holds, uint32_t a, uint32_t b, uint32_t c, bool sums) {
    uint32_t result = sums ? c : 0;
    for (int at = 0; at < 32; at += 8 * static_cast<int>(sizeof(A)))
        result += static_cast<uint32_t>(holds(static_cast<A>(a >> at), static_cast<B>(b >> at))) << (sums ? 0 : at);
    return result;
}

// Two floats in a register of 64 bits.
struct Floats {
    float x, y;
};
inline Floats operator+(Floats a, Floats b) { return {a.x + b.x, a.y + b.y}; }
inline Floats operator-(Floats a, Floats b) { return {a.x - b.x, a.y - b.y}; }
inline Floats operator*(Floats a, Floats b) { return {a.x * b.x, a.y * b.y}; }
inline Floats fused(Floats a, Floats b, Floats c) { return {fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y)}; }
// With a rounding mode of which the compiler knows nothing.
template <class F, class... V> inline float directed_one(peakgate::Rounding mode, F computed, V... values) {
    const volatile float kept[] = {values...};
    const peakgate::Rounded while_it_lives(mode);
    const volatile float result = computed(kept);
    return result;
}
template <class F, class... V> inline Floats directed(peakgate::Rounding mode, F computed, V... values) {
    return {directed_one(mode, computed, values.x...), directed_one(mode, computed, values.y...)};
}
inline Floats flushed(Floats a) { return {flushed(a.x), flushed(a.y)}; }

template <class A> inline int64_t byte_of(A a, int at) { return is_signed<A> ? static_cast<int8_t>(a >> at) : a >> at & 255; }
template <class A, class B, class C> inline C dot4(A a, B b, C sum) {
    for (int at = 0; at < 32; at += 8) sum = static_cast<C>(sum + byte_of(a, at) * byte_of(b, at));
    return sum;
}
template <class A, class B, class C> inline C dot2(A a, B b, C sum, bool is_high) {
    for (int at = 0; at < 2; ++at) {
        const int64_t half = is_signed<A> ? static_cast<int16_t>(a >> 16 * at) : a >> 16 * at & 0xffff;
        sum = static_cast<C>(sum + half * byte_of(b, 8 * at + 16 * is_high));
    }
    return sum;
}

// ---- warps ----
// `limits` encodes the width of the groups of lanes and the limit of source lanes.
#define PEAKGATE_PTX_SHUFFLE(name, from, reaches)                                                                      \
    __attribute__((always_inline)) inline uint32_t shuffle_##name(uint32_t mask, uint32_t value, uint32_t b, uint32_t limits, bool& in_range) {       \
        const int lane = static_cast<int>(rank() % 32), groups = static_cast<int>(limits >> 8 & 31);                   \
        const int farthest = (lane & groups) | static_cast<int>(limits & 31 & ~(limits >> 8));                         \
        const int by = static_cast<int>(b & 31), source = (from);                                                      \
        in_range = (reaches);                                                                                          \
        return __shfl_sync(mask, value, in_range ? source : lane);                                                     \
    }
PEAKGATE_PTX_SHUFFLE(idx, (lane & groups) | (by & ~groups), source <= farthest)
PEAKGATE_PTX_SHUFFLE(up, lane - by, source >= farthest)
PEAKGATE_PTX_SHUFFLE(down, lane + by, source <= farthest)
PEAKGATE_PTX_SHUFFLE(bfly, lane ^ by, source <= farthest)
__attribute__((always_inline)) inline bool uniform(uint32_t mask, bool value) {
    const uint32_t all = __ballot_sync(mask, 1), where = __ballot_sync(mask, value);
    return where == 0 || where == all;
}

} // namespace peakgate_ptx
