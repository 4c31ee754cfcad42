// tcgen05_roof: a thread multiplies the same tiles over and over, both in shared memory, sums in tensor memory.
//
// MATH names the type. Whatever it is, a row of A or B has 128 bytes, 32 in each of four steps of k, in the 128-byte
// swizzle. A pass is four instructions of 128 x 256, which begin from zero, so that the result is that of one pass, and a
// float32 does not drift: out[row][t] is the sum of its columns 8 n + 2 t and 8 n + 2 t + 1, over all n. A pass is issued
// while the one before is under way. Proven by the emulator; it was never timed, for want of a GPU.

#define MATH_TF32 0
#define MATH_BF16 1
#define MATH_FP16 2
#define MATH_FP8 3
#define MATH_INT8 4

// KIND of instruction; codes of its sums and operands (PTX ISA, instruction descriptor).
#if MATH == MATH_TF32
typedef float Element;
#define KIND "tf32"
constexpr unsigned sum_code = 1, operand_code = 2;
#elif MATH == MATH_BF16
typedef unsigned short Element;
#define KIND "f16"
constexpr unsigned sum_code = 1, operand_code = 1;
#elif MATH == MATH_FP16
#include <cuda_fp16.h>
typedef __half Element;
#define KIND "f16"
constexpr unsigned sum_code = 1, operand_code = 0;
#elif MATH == MATH_FP8
typedef unsigned char Element;
#define KIND "f8f6f4"
constexpr unsigned sum_code = 1, operand_code = 0;
#else
typedef signed char Element;
#define KIND "i8"
constexpr unsigned sum_code = 2, operand_code = 1;
#endif

#if MATH == MATH_INT8
typedef int Sum;
__device__ __forceinline__ Sum sum_of(unsigned bits) { return (int)bits; }
#else
typedef float Sum;
__device__ __forceinline__ Sum sum_of(unsigned bits) { return __uint_as_float(bits); }
#endif

constexpr int rows = 128, columns = 256, chunks = 8; // of 16 bytes in a row
constexpr unsigned described = sum_code << 4 | operand_code << 7 | operand_code << 10 | columns / 8 << 17 | rows / 16 << 24;

__device__ __forceinline__ unsigned shared_address(const void* pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

// Of a tile: eight rows have 1024 bytes, 128-byte swizzle.
__device__ __forceinline__ unsigned long long descriptor(const uint4* tile) {
    return (shared_address(tile) & 0x3ffff) >> 4 | 1ull << 16 | (1024ull >> 4) << 32 | 1ull << 46 | 2ull << 61;
}

__device__ __forceinline__ void wait(unsigned long long* barrier, unsigned parity) {
    asm volatile("{\n.reg .pred over;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n@!over bra again;\n}"
                 ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

__device__ __forceinline__ void commit(unsigned long long* barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Tiles A and B, barriers of passes in turn and of all of them, and the address of the sums.
struct Workspace {
    uint4 a[rows * chunks], b[columns * chunks];
    unsigned long long passed[2], made;
    unsigned sums;
};

extern "C" __global__ void __launch_bounds__(128) tcgen05_roof(Sum* __restrict__ out, const Element* __restrict__ left,
                                                               const Element* __restrict__ right, int tiles, int passes) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Workspace& work = *(Workspace*)memory;
    const uint4* const a = (const uint4*)left + blockIdx.x % tiles * (rows * chunks);
    for (int i = threadIdx.x; i < rows * chunks; i += blockDim.x) work.a[i ^ i / chunks % 8] = a[i];
    for (int i = threadIdx.x; i < columns * chunks; i += blockDim.x) work.b[i ^ i / chunks % 8] = ((const uint4*)right)[i];
    if (threadIdx.x == 0) {
        unsigned long long* const barriers[] = {work.passed, work.passed + 1, &work.made};
        for (unsigned long long* barrier : barriers)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_address(&work.sums)), "n"(columns)
                     : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); // tcgen05.mma reads shared memory as the async proxy does
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    const unsigned sums = work.sums;
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
            for (int step = 0; step < 4; ++step)
                asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %4, 0;\n"
                             "tcgen05.mma.cta_group::1.kind::" KIND " [%0], %1, %2, %3, add;\n}" ::"r"(sums),
                             "l"(descriptor(work.a) + 2 * step), "l"(descriptor(work.b) + 2 * step), "r"(described), "r"(step)
                             : "memory");
            commit(work.passed + pass % 2);
            if (pass > 0) wait(work.passed + (pass - 1) % 2, (pass - 1) / 2 % 2);
        }
        commit(&work.made);
    }
    __syncwarp();
    wait(&work.made, 0);
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    Sum found[4] = {};
#pragma unroll 1
    for (int first = 0; first < columns; first += 8) {
        unsigned s[8];
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                     : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]), "=r"(s[4]), "=r"(s[5]), "=r"(s[6]), "=r"(s[7])
                     : "r"(sums + first + (threadIdx.x / 32 * 32 << 16)));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < 8; ++i) found[i / 2] += sum_of(s[i]);
    }
    const size_t row = (size_t)blockIdx.x * rows + threadIdx.x;
    for (int t = 0; t < 4; ++t) out[row * 4 + t] = found[t];
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(sums), "n"(columns));
}
