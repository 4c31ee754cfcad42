// Numbers of half precision as bits, for the sums of matrix products.
#pragma once

#include <stdint.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace peakgate {

// Converts to half precision with one rounding.
ALWAYS_INLINE uint32_t to_half(double number) {
    const auto bits = __builtin_bit_cast(uint64_t, number);
    const uint32_t sign = static_cast<uint32_t>(bits >> 63) << 15;
    uint64_t exponent = bits >> 52 & 0x7ff;
    exponent = exponent < 1023 - 14 ? 1023 - 14 : exponent > 1023 + 16 ? 1023 + 16 : exponent;
    // Adding this rounds to a half's last place.
    const double magnitude = __builtin_fabs(number), large = __builtin_bit_cast(double, (exponent + 42) << 52);
    const auto rounded = static_cast<float>(magnitude + large - large);
    const auto wide = __builtin_bit_cast(uint32_t, rounded);
    const uint32_t normal = (wide >> 13) - (112u << 10), small = static_cast<uint32_t>(static_cast<int>(rounded * 0x1p24f) & 0x3ff);
    const uint32_t finite = rounded < 0x1p-14f ? small : normal;
    return number != number ? 0x7fffu : (rounded < 65536.0f ? finite : 0x7c00u) | sign;
}

ALWAYS_INLINE double half_of(uint32_t bits) {
    const uint32_t magnitude = bits & 0x7fffu;
    const uint32_t wide = (magnitude << 13) + (magnitude < 0x7c00u ? 112u << 23 : 0x7f800000u);
    const float number = magnitude < 0x400u ? static_cast<float>(magnitude) * 0x1p-24f : __builtin_bit_cast(float, wide);
    return static_cast<double>(bits & 0x8000u ? -number : number);
}

} // namespace peakgate
