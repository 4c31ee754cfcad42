// CUDA's built-in vector types, with CUDA's sizes and alignments.
#pragma once

#include "runtime_api.h"

struct cudaExtent { size_t width, height, depth; };
struct cudaPos { size_t x, y, z; };
struct cudaPitchedPtr { void* ptr; size_t pitch, xsize, ysize; };
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// Pairs and quadruples are aligned to their own size, but to at most 16 bytes.
#define PEAKGATE_VECTORS_EXCEPT_3(element, name)                                                                       \
    struct name##1 {                                                                                                   \
        element x;                                                                                                     \
    };                                                                                                                 \
    struct alignas(2 * sizeof(element)) name##2 {                                                                      \
        element x, y;                                                                                                  \
    };                                                                                                                 \
    struct alignas(4 * sizeof(element) < 16 ? 4 * sizeof(element) : 16) name##4 {                                      \
        element x, y, z, w;                                                                                            \
    };                                                                                                                 \
    inline name##1 make_##name##1(element x) { return {x}; }                                                           \
    inline name##2 make_##name##2(element x, element y) { return {x, y}; }                                             \
    inline name##3 make_##name##3(element x, element y, element z) { return {x, y, z}; }                               \
    inline name##4 make_##name##4(element x, element y, element z, element w) { return {x, y, z, w}; }

#define PEAKGATE_VECTORS(element, name)                                                                                \
    struct name##3 {                                                                                                   \
        element x, y, z;                                                                                               \
    };                                                                                                                 \
    PEAKGATE_VECTORS_EXCEPT_3(element, name)

PEAKGATE_VECTORS(signed char, char)
PEAKGATE_VECTORS(unsigned char, uchar)
PEAKGATE_VECTORS(short, short)
PEAKGATE_VECTORS(unsigned short, ushort)
PEAKGATE_VECTORS(int, int)
PEAKGATE_VECTORS_EXCEPT_3(unsigned, uint)
PEAKGATE_VECTORS(long, long)
PEAKGATE_VECTORS(unsigned long, ulong)
PEAKGATE_VECTORS(long long, longlong)
PEAKGATE_VECTORS(unsigned long long, ulonglong)
PEAKGATE_VECTORS(float, float)
PEAKGATE_VECTORS(double, double)

// CUDA 13's names of the types of 32 bytes, by alignment.
#define PEAKGATE_VECTORS_4(element, name, alignment)                                                                   \
    struct __attribute__((aligned(alignment))) name##4_##alignment##a {                                                \
        element x, y, z, w;                                                                                            \
    };                                                                                                                 \
    inline name##4_##alignment##a make_##name##4_##alignment##a(element x, element y, element z, element w) {          \
        return {x, y, z, w};                                                                                           \
    }
#define PEAKGATE_VECTORS_OF_32(element, name)                                                                          \
    PEAKGATE_VECTORS_4(element, name, 16)                                                                              \
    PEAKGATE_VECTORS_4(element, name, 32)
PEAKGATE_VECTORS_OF_32(double, double)
PEAKGATE_VECTORS_OF_32(long, long)
PEAKGATE_VECTORS_OF_32(unsigned long, ulong)
PEAKGATE_VECTORS_OF_32(long long, longlong)
PEAKGATE_VECTORS_OF_32(unsigned long long, ulonglong)
