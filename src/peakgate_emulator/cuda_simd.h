// Operations on the two halves or four bytes of a word. Included if a source uses one.
#pragma once

#include "cuda_math.h"

namespace peakgate {
constexpr int lane_of(unsigned word, int at, int bits, bool is_signed_lane) {
    const int lane = static_cast<int>(word >> at & ((1u << bits) - 1));
    return is_signed_lane && lane >> (bits - 1) ? lane - (1 << bits) : lane;
}
template <int bits, class F> constexpr unsigned by_lane(bool is_signed_lane, F computed, unsigned a, unsigned b = 0, unsigned c = 0) {
    unsigned result = 0;
    for (int at = 0; at < 32; at += bits)
        result |= (static_cast<unsigned>(computed(lane_of(a, at, bits, is_signed_lane), lane_of(b, at, bits, is_signed_lane),
                                                  lane_of(c, at, bits, is_signed_lane))) & ((1u << bits) - 1)) << at;
    return result;
}
template <int bits> constexpr int limited(int value, bool is_signed_lane) {
    const int least = is_signed_lane ? -(1 << (bits - 1)) : 0, most = (1 << (bits - is_signed_lane)) - 1;
    return value < least ? least : value > most ? most : value;
}
constexpr int rectified_lane(int value) { return value < 0 ? 0 : value; }
} // namespace peakgate

#define PEAKGATE_SIMD(name, is_signed_lane, ...)                                                                       \
    PEAKGATE_SIMD_OF(name##2, 16, is_signed_lane, __VA_ARGS__)                                                         \
    PEAKGATE_SIMD_OF(name##4, 8, is_signed_lane, __VA_ARGS__)
#define PEAKGATE_SIMD_OF(name, bits, is_signed_lane, ...)                                                              \
    inline unsigned name(unsigned a_, unsigned b_) {                                                                   \
        [[maybe_unused]] constexpr int width = bits;                                                                   \
        return peakgate::by_lane<bits>(is_signed_lane, [](int a, int b, int) { return __VA_ARGS__; }, a_, b_);         \
    }
#define PEAKGATE_SIMD_1(name, ...)                                                                                     \
    PEAKGATE_SIMD_1_OF(name##2, 16, __VA_ARGS__)                                                                       \
    PEAKGATE_SIMD_1_OF(name##4, 8, __VA_ARGS__)
#define PEAKGATE_SIMD_1_OF(name, bits, ...)                                                                            \
    inline unsigned name(unsigned a_) {                                                                                \
        [[maybe_unused]] constexpr int width = bits;                                                                   \
        return peakgate::by_lane<bits>(true, [](int a, int, int) { return __VA_ARGS__; }, a_);                         \
    }
PEAKGATE_SIMD_1(__vabs, a < 0 ? -a : a)
PEAKGATE_SIMD_1(__vabsss, peakgate::limited<width>(a < 0 ? -a : a, true))
PEAKGATE_SIMD_1(__vneg, -a)
PEAKGATE_SIMD_1(__vnegss, peakgate::limited<width>(-a, true))
PEAKGATE_SIMD(__vadd, false, a + b)
PEAKGATE_SIMD(__vaddss, true, peakgate::limited<width>(a + b, true))
PEAKGATE_SIMD(__vaddus, false, peakgate::limited<width>(a + b, false))
PEAKGATE_SIMD(__vsub, false, a - b)
PEAKGATE_SIMD(__vsubss, true, peakgate::limited<width>(a - b, true))
PEAKGATE_SIMD(__vsubus, false, peakgate::limited<width>(a - b, false))
PEAKGATE_SIMD(__vavgs, true, (a + b + (a + b >= 0)) >> 1)
PEAKGATE_SIMD(__vavgu, false, (a + b + 1) >> 1)
PEAKGATE_SIMD(__vhaddu, false, (a + b) >> 1)
PEAKGATE_SIMD(__vabsdiffs, true, a < b ? b - a : a - b)
PEAKGATE_SIMD(__vabsdiffu, false, a < b ? b - a : a - b)
PEAKGATE_SIMD(__vmaxs, true, a < b ? b : a)
PEAKGATE_SIMD(__vmaxu, false, a < b ? b : a)
PEAKGATE_SIMD(__vmins, true, b < a ? b : a)
PEAKGATE_SIMD(__vminu, false, b < a ? b : a)
#define PEAKGATE_SIMD_COMPARE(name, is_signed_lane, op)                                                                \
    PEAKGATE_SIMD(__vcmp##name, is_signed_lane, a op b ? ~0 : 0)                                                       \
    PEAKGATE_SIMD(__vset##name, is_signed_lane, a op b ? 1 : 0)
PEAKGATE_SIMD_COMPARE(eq, false, ==)
PEAKGATE_SIMD_COMPARE(ne, false, !=)
PEAKGATE_SIMD_COMPARE(lts, true, <)
PEAKGATE_SIMD_COMPARE(ltu, false, <)
PEAKGATE_SIMD_COMPARE(les, true, <=)
PEAKGATE_SIMD_COMPARE(leu, false, <=)
PEAKGATE_SIMD_COMPARE(gts, true, >)
PEAKGATE_SIMD_COMPARE(gtu, false, >)
PEAKGATE_SIMD_COMPARE(ges, true, >=)
PEAKGATE_SIMD_COMPARE(geu, false, >=)

#define PEAKGATE_SIMD_SUM(name, bits, differences)                                                                     \
    inline unsigned name(unsigned a, unsigned b) {                                                                     \
        unsigned sum = 0, each = differences(a, b);                                                                    \
        for (int at = 0; at < 32; at += bits) sum += each >> at & ((1u << bits) - 1);                                  \
        return sum;                                                                                                    \
    }
PEAKGATE_SIMD_SUM(__vsads2, 16, __vabsdiffs2)
PEAKGATE_SIMD_SUM(__vsads4, 8, __vabsdiffs4)
PEAKGATE_SIMD_SUM(__vsadu2, 16, __vabsdiffu2)
PEAKGATE_SIMD_SUM(__vsadu4, 8, __vabsdiffu4)

// The maximum and minimum of two or three, or of a sum and a third, clamped at 0 for `relu`.
#define PEAKGATE_EXTREME(name, op)                                                                                     \
    PEAKGATE_EXTREME_OF(name, s32, int, op)                                                                            \
    PEAKGATE_EXTREME_OF(name, u32, unsigned, op)                                                                       \
    PEAKGATE_EXTREME_LANES(name, s16x2, true, op)                                                                      \
    PEAKGATE_EXTREME_LANES(name, u16x2, false, op)                                                                     \
    inline int __vi##name##_s32_relu(int a, int b) { return peakgate::rectified_lane(a op b ? a : b); }                \
    inline int __vi##name##3_s32_relu(int a, int b, int c) {                                                           \
        return peakgate::rectified_lane(__vi##name##3_s32(a, b, c));                                                   \
    }                                                                                                                  \
    inline int __viadd##name##_s32_relu(int a, int b, int c) {                                                         \
        return peakgate::rectified_lane(__viadd##name##_s32(a, b, c));                                                 \
    }                                                                                                                  \
    inline unsigned __vi##name##_s16x2_relu(unsigned a, unsigned b) { return __vmaxs2(__v##name##s2(a, b), 0); }       \
    inline unsigned __vi##name##3_s16x2_relu(unsigned a, unsigned b, unsigned c) {                                     \
        return __vmaxs2(__vi##name##3_s16x2(a, b, c), 0);                                                              \
    }                                                                                                                  \
    inline unsigned __viadd##name##_s16x2_relu(unsigned a, unsigned b, unsigned c) {                                   \
        return __vmaxs2(__viadd##name##_s16x2(a, b, c), 0);                                                            \
    }
#define PEAKGATE_EXTREME_OF(name, kind, type, op)                                                                      \
    inline type __vi##name##3_##kind(type a, type b, type c) {                                                         \
        const type of_two = a op b ? a : b;                                                                            \
        return of_two op c ? of_two : c;                                                                               \
    }                                                                                                                  \
    inline type __viadd##name##_##kind(type a, type b, type c) {                                                       \
        const type sum = a + b;                                                                                        \
        return sum op c ? sum : c;                                                                                     \
    }                                                                                                                  \
    inline type __vib##name##_##kind(type a, type b, bool* is_first) {                                                 \
        *is_first = a op b || a == b;                                                                                  \
        return *is_first ? a : b;                                                                                      \
    }
#define PEAKGATE_EXTREME_LANES(name, kind, is_signed_lane, op)                                                         \
    inline unsigned __vi##name##3_##kind(unsigned a, unsigned b, unsigned c) {                                         \
        auto of_three = [](int x, int y, int z) { return (x op y ? x : y) op z ? (x op y ? x : y) : z; };              \
        return peakgate::by_lane<16>(is_signed_lane, of_three, a, b, c);                                               \
    }                                                                                                                  \
    inline unsigned __viadd##name##_##kind(unsigned a, unsigned b, unsigned c) {                                       \
        auto larger = [](int x, int y, int) { return x op y ? x : y; };                                                \
        return peakgate::by_lane<16>(is_signed_lane, larger, __vadd2(a, b), c);                                        \
    }                                                                                                                  \
    inline unsigned __vib##name##_##kind(unsigned a, unsigned b, bool* high_is_first, bool* low_is_first) {            \
        auto is_first = [](int x, int y, int) { return x op y || x == y; };                                            \
        const unsigned first = peakgate::by_lane<16>(is_signed_lane, is_first, a, b);                                  \
        *low_is_first = first & 1;                                                                                     \
        *high_is_first = first >> 16;                                                                                  \
        return peakgate::by_lane<16>(is_signed_lane, [](int x, int y, int) { return x op y ? x : y; }, a, b);          \
    }
PEAKGATE_EXTREME(max, >)
PEAKGATE_EXTREME(min, <)
