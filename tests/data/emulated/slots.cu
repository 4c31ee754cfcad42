constexpr int BYTES = 64 * 128 + 8 * 128;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned long long matrix(const void* p) {
    return (at(p) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
// c = a . b^T of 64 x 64 * slices and 8 x 64 * slices bf16: slices go round two slots, brought by a fifth warp.
extern "C" __global__ void slots(float* c, const uint4* slices, int count) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ unsigned long long full[2], empty[2];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            asm volatile("mbarrier.init.shared.b64 [%0], 1;\nmbarrier.init.shared.b64 [%1], 4;"
                         ::"r"(at(full + i)), "r"(at(empty + i)));
        }
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();
    const auto wait = [](void* barrier, unsigned parity) {
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }"
                     ::"r"(at(barrier)), "r"(parity));
    };
    if (threadIdx.x >= 128) {
        for (int i = 0; i < count && threadIdx.x == 128; ++i) {
            wait(empty + i % 2, i / 2 % 2 ^ 1);
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at(full + i % 2)), "r"(BYTES));
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         ::"r"(at(memory + i % 2 * BYTES)), "l"((const char*)slices + i * BYTES), "r"(BYTES),
                           "r"(at(full + i % 2)));
        }
        return;
    }
    float s[4];
    const auto release = [&](int i) {
        if (i >= 0 && threadIdx.x % 32 == 0)
            asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at(empty + i % 2)));
    };
    for (int i = 0; i < count; ++i) {
        FULL(full + i % 2, i / 2 % 2);
        const unsigned long long a = matrix(memory + i % 2 * BYTES);
        const unsigned long long b = matrix(memory + i % 2 * BYTES + 64 * 128);
        FENCE;
        for (int step = 0; step < 4; ++step) {
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
                         "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                         "{%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
                         : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
                         : "l"(a + 2 * step), "l"(b + 2 * step), "r"(i + step));
        }
        COMMIT;
        WAIT;
        TOUCH;
        RELEASE;
    }
    LAST;
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 2;
    for (int i = 0; i < 4; ++i) c[(row + i / 2 * 8) * 8 + col + i % 2] = s[i];
}
