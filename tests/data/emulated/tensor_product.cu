__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
#ifndef SCALE
#define SCALE ""
#endif
#define PRODUCT(kind, a, letter)                                                                          \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"                                                \
                 "tcgen05.mma.cta_group::1.kind::" kind " [%0], " a ", %2, %3, {%5, %6, %7, %8}, p" SCALE "; }" \
                 ::"r"(to), letter(of_a), "l"(b), "r"(what), "r"(adds), "r"(hidden), "r"(0), "r"(0), "r"(0))
#define STATIONARY(kind)                                                                                  \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"                                                \
                 "tcgen05.mma.ws.cta_group::1.kind::" kind ".collector::b1::fill [%0], %1, %2, %3, p, %5; }" \
                 ::"r"(to), "l"(a), "l"(b), "r"(what), "r"(adds), "l"((unsigned long long)hidden << 39))
// Sums of 128 lanes and 256 columns, replaced by a product with them; `held`: A as it lies in tensor memory.
extern "C" __global__ void tensor_product(unsigned* out, const uint4* images, const unsigned* held, unsigned long long a,
                                          unsigned long long b, unsigned what, int kind, int adds, unsigned hidden, int lane) {
    extern __shared__ __align__(1024) uint4 memory[];
    __shared__ unsigned address;
    __shared__ unsigned long long made;
    const int lanes = threadIdx.x / 32 * 32 << 16;
    for (int i = threadIdx.x; i < 4096; i += 128) memory[i] = images[i];
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at(&made)));
    if (threadIdx.x < 32)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 512;" ::"r"(at(&address)));
    asm volatile("fence.proxy.async;\nfence.mbarrier_init.release.cluster;");
    __syncthreads();
    const unsigned sums = address, to = sums + (lane << 16), of_a = to + 256;
    for (int i = 0; i < 256; ++i)
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(sums + lanes + i), "r"(out[256 * threadIdx.x + i]));
    for (int i = 0; i < 8; i += 2)
        asm volatile("tcgen05.st.sync.aligned.32x32b.x2.b32 [%0], {%1, %2};"
                     ::"r"(sums + lanes + 256 + i), "r"(held[8 * threadIdx.x + i]), "r"(held[8 * threadIdx.x + i + 1]));
    asm volatile("tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;");
    a |= (at(memory) & 0x3ffff) >> 4;
    b |= (at(memory) + 32768 & 0x3ffff) >> 4;
    if (threadIdx.x == 0) {
        if (kind == 4) {
            PRODUCT("f16", "[%1]", "r");
        } else {
            const unsigned long long of_a = a;
            if (kind == 0) PRODUCT("f16", "%1", "l");
            if (kind == 1) PRODUCT("tf32", "%1", "l");
            if (kind == 2) PRODUCT("f8f6f4", "%1", "l");
            if (kind == 3) PRODUCT("i8", "%1", "l");
            if (kind == 5) STATIONARY("f16");
            if (kind == 6) STATIONARY("i8");
        }
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%0];" ::"l"(&made));
    }
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(at(&made)));
    asm volatile("tcgen05.fence::after_thread_sync;");
    for (int i = 0; i < 256; ++i)
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(out[256 * threadIdx.x + i]) : "r"(sums + lanes + i));
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    __syncthreads();
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 512;" ::"r"(sums));
}
