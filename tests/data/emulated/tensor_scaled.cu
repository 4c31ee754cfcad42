__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned long long matrix(const void* p, unsigned long long how) { return (at(p) & 0x3ffff) >> 4 | how | 1ull << 46; }
#define PRODUCT(kind)                                                                                          \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"                                                     \
                 "tcgen05.mma.cta_group::1.kind::" kind " [%0], %1, %2, %3, [%4], [%5], p; }"                  \
                 ::"r"(sums), "l"(matrix(memory, a)), "l"(matrix(memory + 32768, b)), "r"(what), "r"(sums + 256), \
                   "r"(sums + 260), "r"(adds))
// Sums of 128 rows and 256 columns, replaced by a product of matrices with scales; those are behind the matrices.
extern "C" __global__ void tensor_scaled(unsigned* out, const uint4* images, unsigned long long a, unsigned long long b,
                                         unsigned what, int kind, int adds) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ unsigned address;
    __shared__ unsigned long long made;
    const int lanes = threadIdx.x / 32 * 32 << 16;
    for (int i = threadIdx.x; i < (65536 + 3 * 512) / 16; i += 128) ((uint4*)memory)[i] = images[i];
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at(&made)));
    if (threadIdx.x < 32)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 512;" ::"r"(at(&address)));
    asm volatile("fence.proxy.async;\nfence.mbarrier_init.release.cluster;");
    __syncthreads();
    const unsigned sums = address;
    for (int i = 0; i < 256; ++i)
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(sums + lanes + i), "r"(out[256 * threadIdx.x + i]));
    asm volatile("tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;");
    if (threadIdx.x == 0) {
        for (int i = 0; i < 3; ++i)
            asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;"
                         ::"r"(sums + 256 + 4 * i), "l"(matrix(memory + 65536 + 512 * i, 8ull << 32)));
        if (kind == 0) PRODUCT("mxf8f6f4.block_scale");
        if (kind == 1) PRODUCT("mxf4.block_scale.block32");
        if (kind == 2) PRODUCT("mxf4nvf4.block_scale.scale_vec::4X");
        if (kind == 3)
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
                         "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p; }"
                         ::"r"(sums), "l"(matrix(memory, a)), "l"(matrix(memory + 32768, b)), "r"(what), "r"(adds));
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(at(&made)));
    }
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" ::"r"(at(&made)));
    asm volatile("tcgen05.fence::after_thread_sync;");
    for (int i = 0; i < 256; ++i)
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(out[256 * threadIdx.x + i]) : "r"(sums + lanes + i));
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    __syncthreads();
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 512;" ::"r"(sums));
}
