__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned in_block(const void* p, unsigned rank) {
    unsigned address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(at(p)), "r"(rank));
    return address;
}
__device__ void wait(const void* barrier, unsigned parity) {
    asm volatile("{.reg .pred over;\nagain:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 over, [%0], %1;\n@!over bra again;}"
                 ::"r"(at(barrier)), "r"(parity) : "memory");
}
__device__ void arrive_at(const void* barrier, unsigned rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                 ::"r"(in_block(barrier, rank)) : "memory");
}
// Values go round: in each round every block sends what it has to the next one. out[block] = in[block - rounds].
extern "C" __global__ void __cluster_dims__(4) ring(int* out, const int* in, int rounds) {
    __shared__ int box[64];
    __shared__ __align__(8) unsigned long long full, empty;
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const unsigned next = (rank + 1) % 4, last = (rank + 3) % 4;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(&full)), "r"(ARRIVALS));
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" ::"r"(at(&empty)));
        INIT_FENCE;
        ANNOUNCE;
    }
    BEGIN;
    int value = in[blockIdx.x * 64 + threadIdx.x];
    for (int round = 0; round < rounds; ++round) {
        if (round > 0) WAIT_EMPTY(&empty, (round - 1) & 1);
        SEND(in_block(&box[threadIdx.x], next), value, in_block(&full, next));
        WAIT_FULL(&full, round & 1);
        value = box[threadIdx.x];
        if (threadIdx.x == 0 && round + 1 < rounds) ANNOUNCE;
        RELEASE(&empty, last);
    }
    out[blockIdx.x * 64 + threadIdx.x] = value;
    END;
}
