// Tiles of the wgmma stages: each warpgroup multiplies the same tiles repeatedly, with B in shared memory.
//
// Whatever the type, a row of A or B has 32 bytes, eight words, in one step along k. A's fragments are those of
// mma.sync, 16 rows per warp; B is in shared memory as core matrices of 8 rows x 16 bytes, two of them for a step of
// eight rows, which wgmma reads without conflicts. A pass is four instructions of 64 x 256, and is issued while the
// pass before it is still executing, so the tensor cores never wait. Each pass begins from zero, so the result is that
// of a single pass.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

constexpr int steps = 4, columns = 256, words = 8; // of a row in one step
constexpr int sums = columns / 2;                   // of a thread

// A product of 64 x 256 in one step along k, which is added to the sums or replaces them. SIGNS are the last operands
// of the instruction: for floating-point types two factors of 1, for 16-bit types also that B is not transposed.
#define PRODUCT(NAME, SUM, REGISTER, INSTRUCTION, SIGNS)                                                               \
    struct NAME {                                                                                                      \
        typedef SUM Sum;                                                                                               \
        static __device__ __forceinline__ void multiply(Sum (&sum)[sums], const unsigned (&a)[4],                      \
                                                        unsigned long long b, int add) {                               \
            asm volatile(                                                                                              \
                "{\n"                                                                                                  \
                ".reg .pred add;\n"                                                                                    \
                "setp.ne.b32 add, %133, 0;\n"                                                                          \
                "wgmma.mma_async.sync.aligned." INSTRUCTION " {"                                                       \
                "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                               \
                "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                     \
                "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                     \
                "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                     \
                "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                     \
                "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                     \
                "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "         \
                "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"       \
                "}, {%128, %129, %130, %131}, %132, add" SIGNS ";\n"                                                   \
                "}\n"                                                                                                  \
                : "+" REGISTER(sum[0]), "+" REGISTER(sum[1]), "+" REGISTER(sum[2]), "+" REGISTER(sum[3]),              \
                  "+" REGISTER(sum[4]), "+" REGISTER(sum[5]), "+" REGISTER(sum[6]), "+" REGISTER(sum[7]),              \
                  "+" REGISTER(sum[8]), "+" REGISTER(sum[9]), "+" REGISTER(sum[10]), "+" REGISTER(sum[11]),            \
                  "+" REGISTER(sum[12]), "+" REGISTER(sum[13]), "+" REGISTER(sum[14]), "+" REGISTER(sum[15]),          \
                  "+" REGISTER(sum[16]), "+" REGISTER(sum[17]), "+" REGISTER(sum[18]), "+" REGISTER(sum[19]),          \
                  "+" REGISTER(sum[20]), "+" REGISTER(sum[21]), "+" REGISTER(sum[22]), "+" REGISTER(sum[23]),          \
                  "+" REGISTER(sum[24]), "+" REGISTER(sum[25]), "+" REGISTER(sum[26]), "+" REGISTER(sum[27]),          \
                  "+" REGISTER(sum[28]), "+" REGISTER(sum[29]), "+" REGISTER(sum[30]), "+" REGISTER(sum[31]),          \
                  "+" REGISTER(sum[32]), "+" REGISTER(sum[33]), "+" REGISTER(sum[34]), "+" REGISTER(sum[35]),          \
                  "+" REGISTER(sum[36]), "+" REGISTER(sum[37]), "+" REGISTER(sum[38]), "+" REGISTER(sum[39]),          \
                  "+" REGISTER(sum[40]), "+" REGISTER(sum[41]), "+" REGISTER(sum[42]), "+" REGISTER(sum[43]),          \
                  "+" REGISTER(sum[44]), "+" REGISTER(sum[45]), "+" REGISTER(sum[46]), "+" REGISTER(sum[47]),          \
                  "+" REGISTER(sum[48]), "+" REGISTER(sum[49]), "+" REGISTER(sum[50]), "+" REGISTER(sum[51]),          \
                  "+" REGISTER(sum[52]), "+" REGISTER(sum[53]), "+" REGISTER(sum[54]), "+" REGISTER(sum[55]),          \
                  "+" REGISTER(sum[56]), "+" REGISTER(sum[57]), "+" REGISTER(sum[58]), "+" REGISTER(sum[59]),          \
                  "+" REGISTER(sum[60]), "+" REGISTER(sum[61]), "+" REGISTER(sum[62]), "+" REGISTER(sum[63]),          \
                  "+" REGISTER(sum[64]), "+" REGISTER(sum[65]), "+" REGISTER(sum[66]), "+" REGISTER(sum[67]),          \
                  "+" REGISTER(sum[68]), "+" REGISTER(sum[69]), "+" REGISTER(sum[70]), "+" REGISTER(sum[71]),          \
                  "+" REGISTER(sum[72]), "+" REGISTER(sum[73]), "+" REGISTER(sum[74]), "+" REGISTER(sum[75]),          \
                  "+" REGISTER(sum[76]), "+" REGISTER(sum[77]), "+" REGISTER(sum[78]), "+" REGISTER(sum[79]),          \
                  "+" REGISTER(sum[80]), "+" REGISTER(sum[81]), "+" REGISTER(sum[82]), "+" REGISTER(sum[83]),          \
                  "+" REGISTER(sum[84]), "+" REGISTER(sum[85]), "+" REGISTER(sum[86]), "+" REGISTER(sum[87]),          \
                  "+" REGISTER(sum[88]), "+" REGISTER(sum[89]), "+" REGISTER(sum[90]), "+" REGISTER(sum[91]),          \
                  "+" REGISTER(sum[92]), "+" REGISTER(sum[93]), "+" REGISTER(sum[94]), "+" REGISTER(sum[95]),          \
                  "+" REGISTER(sum[96]), "+" REGISTER(sum[97]), "+" REGISTER(sum[98]), "+" REGISTER(sum[99]),          \
                  "+" REGISTER(sum[100]), "+" REGISTER(sum[101]), "+" REGISTER(sum[102]), "+" REGISTER(sum[103]),      \
                  "+" REGISTER(sum[104]), "+" REGISTER(sum[105]), "+" REGISTER(sum[106]), "+" REGISTER(sum[107]),      \
                  "+" REGISTER(sum[108]), "+" REGISTER(sum[109]), "+" REGISTER(sum[110]), "+" REGISTER(sum[111]),      \
                  "+" REGISTER(sum[112]), "+" REGISTER(sum[113]), "+" REGISTER(sum[114]), "+" REGISTER(sum[115]),      \
                  "+" REGISTER(sum[116]), "+" REGISTER(sum[117]), "+" REGISTER(sum[118]), "+" REGISTER(sum[119]),      \
                  "+" REGISTER(sum[120]), "+" REGISTER(sum[121]), "+" REGISTER(sum[122]), "+" REGISTER(sum[123]),      \
                  "+" REGISTER(sum[124]), "+" REGISTER(sum[125]), "+" REGISTER(sum[126]), "+" REGISTER(sum[127])       \
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                                       \
        }                                                                                                              \
    };

PRODUCT(Tf32Product, float, "f", "m64n256k8.f32.tf32.tf32", ", 1, 1")
PRODUCT(Bf16Product, float, "f", "m64n256k16.f32.bf16.bf16", ", 1, 1, 0")
PRODUCT(Fp16Product, float, "f", "m64n256k16.f32.f16.f16", ", 1, 1, 0")
PRODUCT(Fp8Product, float, "f", "m64n256k32.f32.e4m3.e4m3", ", 1, 1")
PRODUCT(Int8Product, int, "r", "m64n256k32.s32.s8.s8", "")
#undef PRODUCT

// Descriptor of B for one step: core matrices of 128 bytes. The next core matrix of the same rows is 128 bytes further
// on, that of the next eight rows 256 bytes.
__device__ __forceinline__ unsigned long long descriptor(const unsigned* shared) {
    const unsigned long long address = __cvta_generic_to_shared(shared);
    return (address & 0x3ffff) >> 4 | (128ull >> 4) << 16 | (256ull >> 4) << 32;
}

// out[row][t] is the sum of the columns 8 n + 2 t and 8 n + 2 t + 1 of A.B^T, over all n.
template <typename Product, typename Element>
__device__ __forceinline__ void multiply_tiles(typename Product::Sum* __restrict__ out,
                                               const Element* __restrict__ left, const Element* __restrict__ right,
                                               int tiles, int passes) {
    typedef typename Product::Sum Sum;
    const unsigned *left_words = (const unsigned*)left, *right_words = (const unsigned*)right;
    __shared__ alignas(128) unsigned b_shared[steps][columns * words];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile = blockIdx.x;
    for (int i = threadIdx.x; i < columns * steps * words; i += blockDim.x) {
        const int word = i % words, step = i / words % steps, row = i / words / steps;
        b_shared[step][row / 8 * 64 + word / 4 * 32 + row % 8 * 4 + word % 4] = right_words[i];
    }
    unsigned a[steps][4];
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = tile % tiles * 64 + warp * 16 + g + i % 2 * 8;
            a[step][i] = left_words[(row * steps + step) * words + t + i / 2 * 4];
        }
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); // wgmma reads shared memory as the async proxy does
    __syncthreads();
    Sum sum[sums] = {};
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            Product::multiply(sum, a[step], descriptor(b_shared[step]), step);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    Sum upper = 0, lower = 0;
#pragma unroll
    for (int n = 0; n < columns / 8; ++n) {
        upper += sum[4 * n] + sum[4 * n + 1];
        lower += sum[4 * n + 2] + sum[4 * n + 3];
    }
    const int row = tile * 64 + warp * 16 + g;
    out[row * 4 + t] = upper;
    out[(row + 8) * 4 + t] = lower;
}
