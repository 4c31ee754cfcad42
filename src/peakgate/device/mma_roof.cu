// mma_roof: a warp multiplies the same tiles over and over, all of them in registers: the roof of mma.sync.
//
// MATH names the type. Whatever it is, a row of A or B has 32 bytes in a step of k, eight words, and fragments of all
// types are the same words: of row g = lane / 4 and of row g + 8 of A, and of row g of each eight rows of B, the words t
// and t + 4, where t = lane % 4. A warp's tile is 16 x 64 with eight independent sums of 16 x 8. Each pass multiplies
// anew from zero, so that the result is that of one pass, and a float32 does not drift: out[row][t] is the sum of its
// columns 8 n + 2 t and 8 n + 2 t + 1, over all n.

#define MATH_TF32 0
#define MATH_BF16 1
#define MATH_FP16 2
#define MATH_FP8 3
#define MATH_INT8 4

#if MATH == MATH_TF32
typedef float Element;
#elif MATH == MATH_BF16
typedef unsigned short Element;
#elif MATH == MATH_FP16
#include <cuda_fp16.h>
typedef __half Element;
#elif MATH == MATH_FP8
typedef unsigned char Element;
#else
typedef signed char Element;
#endif

#if MATH == MATH_INT8
typedef int Sum;
#else
typedef float Sum;
#endif

constexpr int steps = 2, columns = 64, words = 8; // of a row in one step

__device__ __forceinline__ void multiply(Sum (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2], bool add) {
    const Sum from[4] = {add ? sum[0] : 0, add ? sum[1] : 0, add ? sum[2] : 0, add ? sum[3] : 0};
#if MATH == MATH_TF32
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(from[0]), "f"(from[1]),
                   "f"(from[2]), "f"(from[3]));
#elif MATH == MATH_BF16
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(from[0]), "f"(from[1]),
                   "f"(from[2]), "f"(from[3]));
#elif MATH == MATH_FP16
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(from[0]), "f"(from[1]),
                   "f"(from[2]), "f"(from[3]));
#elif MATH == MATH_FP8
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(from[0]), "f"(from[1]),
                   "f"(from[2]), "f"(from[3]));
#else
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=r"(sum[0]), "=r"(sum[1]), "=r"(sum[2]), "=r"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(from[0]), "r"(from[1]),
                   "r"(from[2]), "r"(from[3]));
#endif
}

extern "C" __global__ void mma_roof(Sum* __restrict__ out, const Element* __restrict__ left,
                                    const Element* __restrict__ right, int tiles, int passes) {
    const unsigned *a = (const unsigned*)left, *b = (const unsigned*)right;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    unsigned a_words[steps][4], b_words[steps][columns / 8][2];
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = tile % tiles * 16 + g + i % 2 * 8;
            a_words[step][i] = a[(row * steps + step) * words + t + i / 2 * 4];
        }
#pragma unroll
        for (int n = 0; n < columns / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                b_words[step][n][i] = b[((n * 8 + g) * steps + step) * words + t + i * 4];
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
                multiply(sum[n], a_words[step], b_words[step][n], step > 0);
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
