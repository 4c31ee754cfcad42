#include <cuda.h>
constexpr int SLOTS = 2, SUMS = 2, WIDTH = COLUMNS < 32 ? 32 : COLUMNS;
constexpr int LANES = ROWS / 2, OF_A = LANES * 128, BYTES = OF_A + COLUMNS / 2 * 128, PART = ROWS == 256 ? COLUMNS : COLUMNS / 2;
constexpr unsigned EVEN = 0xfeffffff; // clears the last bit of the block's rank
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
__device__ void wait_narrow(void* barrier, unsigned parity) {
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%0], %1; @!p bra again; }"
                 ::"r"(at(barrier)), "r"(parity));
}
__device__ void arrive_narrow(void* barrier) {
    asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(at(barrier) & EVEN));
}
__device__ void arrive_relaxed(void* barrier) {
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(at(barrier) & EVEN));
}
__device__ void arrive(void* barrier) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(at(barrier) & EVEN));
}
__device__ void announce(void* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at(barrier)), "r"(bytes));
}
__device__ void commit(void* barrier, unsigned short blocks) {
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 ::"r"(at(barrier)), "h"(blocks));
}
__device__ void load(void* to, const CUtensorMap& map, int k, int row, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(at(to)), "l"(&map), "r"(k), "r"(row), "r"(barrier));
}
#define BEFORE asm volatile("tcgen05.fence::before_thread_sync;")
#define AFTER asm volatile("tcgen05.fence::after_thread_sync;")
#define MEET_RELAXED asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;")
#define MEET asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;")
// c[tile] = a . b^T of ROWS x 64 * count and COLUMNS x 64 * count bf16 by a pair of blocks, for a number of tiles: a
// fifth warp of each brings its half of the slices to two slots, a sixth of the even block multiplies, with two sets of
// sums, and four warps of each write these.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)
    tensor_pair(float* c, const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, int tiles, int count) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ unsigned long long full[SLOTS], empty[SLOTS], made[SUMS], taken[SUMS];
    __shared__ unsigned address;
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; ++i) init(full + i, 1), init(empty + i, 1);
        for (int i = 0; i < SUMS; ++i) init(made + i, 1), init(taken + i, GIVERS);
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    BEGIN;
    if (warp == 5) {
        ALLOC;
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
    }
    __syncthreads();
    const unsigned sums = address;
    STAY;
    if (threadIdx.x == 4 * 32) {
        for (int i = 0; i < tiles * count; ++i) {
            unsigned char* const slot = memory + i % SLOTS * BYTES;
            EMPTY(empty + i % SLOTS, i / SLOTS % 2 ^ 1);
            if (rank == 0) announce(full + i % SLOTS, ANNOUNCED);
            load(slot, a, 64 * i, rank * LANES, FILLED(full + i % SLOTS));
            load(slot + OF_A, b, 64 * i, rank * COLUMNS / 2, FILLED(full + i % SLOTS));
        }
    } else if (threadIdx.x == 5 * 32 && rank == LEADER) {
        const unsigned what = 1 << 4 | 1 << 7 | 1 << 10 | COLUMNS / 8 << 17 | ROWS / 16 << 24;
        for (int tile = 0; tile < tiles; ++tile) {
            TAKEN(taken + tile % SUMS, tile / SUMS % 2 ^ 1);
            AFTER_TAKEN;
            for (int i = tile * count; i < (tile + 1) * count; ++i) {
                FULL(full + i % SLOTS, i / SLOTS % 2);
                const unsigned char* const slot = memory + i % SLOTS * BYTES;
                for (int step = 0; step < 4; ++step)
                    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
                                 "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p; }"
                                 ::"r"(sums + tile % SUMS * WIDTH), "l"(matrix(slot) + 2 * step),
                                   "l"(matrix(slot + OF_A) + 2 * step), "r"(what), "r"(i > tile * count || step));
                RELEASE(empty + i % SLOTS);
            }
            COMMIT(made + tile % SUMS);
        }
    }
    for (int tile = 0; tile < tiles && warp < 4; ++tile) {
        MADE(made + tile % SUMS, tile / SUMS % 2);
        AFTER_MADE;
        float s[PART];
        for (int i = 0; i < PART; i += 4)
            asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(s[i]), "=f"(s[i + 1]), "=f"(s[i + 2]), "=f"(s[i + 3])
                         : "r"(sums + tile % SUMS * WIDTH + i + (FIRST_LANE << 16)));
        LOADED;
        BEFORE_TAKEN;
        GIVE(taken + tile % SUMS);
        const int row = rank * LANES + threadIdx.x % LANES, first = threadIdx.x / LANES * PART;
        for (int i = 0; i < PART; ++i) c[(tile * ROWS + row) * COLUMNS + first + i] = s[i];
    }
    END;
    if (warp == 5) DEALLOC;
}
