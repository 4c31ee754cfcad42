// Tiles of the mma stages: each warp multiplies the same tiles repeatedly, all of them in registers.
//
// Whatever the type, a row of A or B has 32 bytes, eight words, in one step along k, and each fragment consists of the
// same words: of rows g and g + 8 of A and of row g of each eight rows of B, the words t and t + 4, where g = lane / 4
// and t = lane % 4. The eight sums of 16 x 8 are independent, so no instruction waits for the one before it. Each pass
// begins from zero, so the result is that of a single pass, and its rounding does not depend on the number of passes.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int steps = 2, columns = 64, words = 8; // of a row in one step

struct Tf32Product {
    typedef float Sum;

    static __device__ __forceinline__ void multiply(Sum (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                                    const Sum (&from)[4]) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                     : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(from[0]), "f"(from[1]),
                       "f"(from[2]), "f"(from[3]));
    }
};

struct Bf16Product {
    typedef float Sum;

    static __device__ __forceinline__ void multiply(Sum (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                                    const Sum (&from)[4]) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                     : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(from[0]), "f"(from[1]),
                       "f"(from[2]), "f"(from[3]));
    }
};

struct Fp16Product {
    typedef float Sum;

    static __device__ __forceinline__ void multiply(Sum (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                                    const Sum (&from)[4]) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                     : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(from[0]), "f"(from[1]),
                       "f"(from[2]), "f"(from[3]));
    }
};

struct Int8Product {
    typedef int Sum;

    static __device__ __forceinline__ void multiply(Sum (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                                    const Sum (&from)[4]) {
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                     : "=r"(sum[0]), "=r"(sum[1]), "=r"(sum[2]), "=r"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(from[0]), "r"(from[1]),
                       "r"(from[2]), "r"(from[3]));
    }
};

// out[row][t] is the sum of the columns 8 n + 2 t and 8 n + 2 t + 1 of A.B^T, over all n.
template <typename Product, typename Element>
__device__ __forceinline__ void multiply_tiles(typename Product::Sum* __restrict__ out,
                                               const Element* __restrict__ left, const Element* __restrict__ right,
                                               int tiles, int passes) {
    typedef typename Product::Sum Sum;
    const unsigned *left_words = (const unsigned*)left, *right_words = (const unsigned*)right;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    unsigned a[steps][4], b[steps][columns / 8][2];
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = tile % tiles * 16 + g + i % 2 * 8;
            a[step][i] = left_words[(row * steps + step) * words + t + i / 2 * 4];
        }
#pragma unroll
        for (int n = 0; n < columns / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                b[step][n][i] = right_words[((n * 8 + g) * steps + step) * words + t + i * 4];
            }
        }
    }
    Sum sum[columns / 8][4] = {};
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
        for (int step = 0; step < steps; ++step) {
#pragma unroll
            for (int n = 0; n < columns / 8; ++n) {
                Sum from[4] = {};
                if (step > 0) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        from[i] = sum[n][i];
                    }
                }
                Product::multiply(sum[n], a[step], b[step][n], from);
            }
        }
    }
    Sum upper = 0, lower = 0;
#pragma unroll
    for (int n = 0; n < columns / 8; ++n) {
        upper += sum[n][0] + sum[n][1];
        lower += sum[n][2] + sum[n][3];
    }
    out[(tile * 16 + g) * 4 + t] = upper;
    out[(tile * 16 + g + 8) * 4 + t] = lower;
}
