__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned long long matrix(const void* p, unsigned long long how) { return (at(p) & 0x3ffff) >> 4 | how | 1ull << 46; }
#define CTA(instruction) "tcgen05." instruction ".cta_group::" GROUP
#define PRODUCT(kind, scales, ...)                                                                                  \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n" CTA("mma.sp")                                            \
                 ".kind::" kind " [%0], %1, %2, [%3], %5, " scales "p; }"                                           \
                 ::"r"(sums), "l"(of_a), "l"(of_b), "r"(sums + METADATA), "r"(adds), "r"(what) __VA_ARGS__)
#define SCALED(kind) PRODUCT(kind, "[%6], [%7], ", , "r"(sums + 264), "r"(sums + 272))
#define MEET asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;")
// Sums of 128 rows of each block and 256 columns, replaced by a product with a sparse A. Each block has `images`: 16 KiB of
// A, 16 KiB of B, and scales; `words`: the metadata of a lane.
extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1)
    tensor_sparse(unsigned* out, const uint4* images, const unsigned* words, unsigned long long a, unsigned long long b,
                  unsigned what, int kind, int adds) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ unsigned address;
    __shared__ unsigned long long made;
    const int lanes = threadIdx.x / 32 * 32 << 16, units = (32768 + 4 * 512) / 16;
    out += blockIdx.x * 128 * 256;
    words += blockIdx.x * 128 * 2;
    for (int i = threadIdx.x; i < units; i += 128) ((uint4*)memory)[i] = images[blockIdx.x * units + i];
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at(&made)));
    if (threadIdx.x < 32) asm volatile(CTA("alloc") ".sync.aligned.shared::cta.b32 [%0], 512;" ::"r"(at(&address)));
    asm volatile("fence.proxy.async;\nfence.mbarrier_init.release.cluster;");
    __syncthreads();
    const unsigned sums = address;
    for (int i = 0; i < 256; ++i)
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(sums + lanes + i), "r"(out[256 * threadIdx.x + i]));
    asm volatile("tcgen05.st.sync.aligned.32x32b.x2.b32 [%0], {%1, %2};"
                 ::"r"(sums + lanes + 256), "r"(words[2 * threadIdx.x]), "r"(words[2 * threadIdx.x + 1]));
    asm volatile("tcgen05.wait::st.sync.aligned;");
    MEET;
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        const unsigned long long of_a = matrix(memory, a), of_b = matrix(memory + 16384, b);
        for (int i = 0; i < 4; ++i)
            asm volatile(CTA("cp") ".32x128b.warpx4 [%0], %1;"
                         ::"r"(sums + 264 + i / 2 * 8 + i % 2 * 4), "l"(matrix(memory + 32768 + 512 * i, 8ull << 32)));
        if (kind == 0) PRODUCT("f16", "");
        if (kind == 1) PRODUCT("tf32", "");
        if (kind == 2) PRODUCT("f8f6f4", "");
        if (kind == 3) PRODUCT("i8", "");
        if (kind == 4) SCALED("mxf8f6f4.block_scale");
        if (kind == 5) SCALED("mxf4.block_scale.block32");
        if (kind == 6) SCALED("mxf4nvf4.block_scale.block16");
        asm volatile(CTA("commit") ".mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                     ::"r"(at(&made)), "h"((unsigned short)((1 << BLOCKS) - 1)));
    }
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" ::"r"(at(&made)));
    asm volatile("tcgen05.fence::after_thread_sync;");
    for (int i = 0; i < 256; ++i)
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(out[256 * threadIdx.x + i]) : "r"(sums + lanes + i));
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    MEET;
    if (threadIdx.x < 32) asm volatile(CTA("dealloc") ".sync.aligned.b32 %0, 512;" ::"r"(sums));
}
