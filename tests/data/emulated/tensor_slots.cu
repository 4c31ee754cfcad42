constexpr int ROWS = 128, COLUMNS = 16, BYTES = (ROWS + COLUMNS) * 128, SLOTS = 2, SUMS = 2, WIDTH = 32;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned long long matrix(const void* p) {
    return (at(p) & 0x3ffff) >> 4 | 64ull << 32 | 1ull << 46 | 2ull << 61;
}
__device__ void init(void* barrier, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at(barrier)), "r"(count));
}
__device__ void wait(void* barrier, unsigned parity) {
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }"
                 ::"r"(at(barrier)), "r"(parity));
}
__device__ void wait_relaxed(void* barrier, unsigned parity) {
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 p, [%0], %1; @!p bra again; }"
                 ::"r"(at(barrier)), "r"(parity));
}
__device__ void arrive_relaxed(void* barrier) {
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [%0];" ::"r"(at(barrier)));
}
__device__ void arrive(void* barrier) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at(barrier))); }
__device__ void commit(void* barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(at(barrier)));
}
#define BEFORE asm volatile("tcgen05.fence::before_thread_sync;")
#define AFTER asm volatile("tcgen05.fence::after_thread_sync;")
// c[tile] = a . b^T of 128 x 64 * count and 16 x 64 * count bf16, for a number of tiles: a fifth warp brings slices to
// two slots, a sixth multiplies them, with two sets of sums, and four warps write these.
extern "C" __global__ void tensor_slots(float* c, const uint4* slices, int tiles, int count) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ unsigned long long full[SLOTS], empty[SLOTS], made[SUMS], taken[SUMS];
    __shared__ unsigned address;
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; ++i) init(full + i, 1), init(empty + i, 1);
        for (int i = 0; i < SUMS; ++i) init(made + i, 1), init(taken + i, 128);
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    if (warp == 5) {
        ALLOC;
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    __syncthreads();
    const unsigned sums = address;
    if (threadIdx.x == 4 * 32) {
        for (int i = 0; i < tiles * count; ++i) {
            EMPTY(empty + i % SLOTS, i / SLOTS % 2 ^ 1);
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at(full + i % SLOTS)), "r"(BYTES));
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         ::"r"(at(memory + i % SLOTS * BYTES)), "l"((const char*)slices + i * BYTES), "r"(BYTES),
                           "r"(at(full + i % SLOTS)));
        }
    } else if (threadIdx.x == 5 * 32) {
        const unsigned what = 1 << 4 | 1 << 7 | 1 << 10 | COLUMNS / 8 << 17 | ROWS / 16 << 24;
        for (int tile = 0; tile < tiles; ++tile) {
            TAKEN(taken + tile % SUMS, tile / SUMS % 2 ^ 1);
            AFTER_TAKEN;
            for (int i = tile * count; i < (tile + 1) * count; ++i) {
                FULL(full + i % SLOTS, i / SLOTS % 2);
                const unsigned char* const slot = memory + i % SLOTS * BYTES;
                for (int step = 0; step < 4; ++step)
                    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
                                 "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }"
                                 ::"r"(sums + tile % SUMS * WIDTH), "l"(matrix(slot) + 2 * step),
                                   "l"(matrix(slot + ROWS * 128) + 2 * step), "r"(what), "r"(i > tile * count || step));
                RELEASE(empty + i % SLOTS);
            }
            COMMIT(made + tile % SUMS);
        }
    }
    for (int tile = 0; tile < tiles && warp < 4; ++tile) {
        MADE(made + tile % SUMS, tile / SUMS % 2);
        AFTER_MADE;
        float s[COLUMNS];
        for (int first = 0; first < COLUMNS; first += 4)
            asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(s[first]), "=f"(s[first + 1]), "=f"(s[first + 2]), "=f"(s[first + 3])
                         : "r"(sums + tile % SUMS * WIDTH + first + (LANES << 16)));
        LOADED;
        BEFORE_TAKEN;
        GIVE(taken + tile % SUMS);
        for (int i = 0; i < COLUMNS; ++i) c[(tile * ROWS + threadIdx.x) * COLUMNS + i] = s[i];
    }
    END;
    if (warp == 5) DEALLOC;
}
