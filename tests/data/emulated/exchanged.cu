// Each block of a pair sends its values to the other one by a bulk copy.
#include <stdint.h>
__device__ uint32_t at(const void* place) { return static_cast<uint32_t>(__cvta_generic_to_shared(place)); }
__device__ uint32_t there(const void* place, uint32_t rank) {
    uint32_t mapped;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(at(place)), "r"(rank));
    return mapped;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) exchanged(int* out, const int* in) {
    __shared__ alignas(16) int sent[64], got[64];
    __shared__ alignas(8) uint64_t full;
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(at(&full)) : "memory");
    }
    sent[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                     ::"r"(there(got, rank ^ 1)), "r"(at(sent)), "r"(there(&full, rank ^ 1)) : "memory");
    asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra again;\n}"
                 ::"r"(at(&full)) : "memory");
    out[blockIdx.x * 64 + threadIdx.x] = got[threadIdx.x];
    END;
}
