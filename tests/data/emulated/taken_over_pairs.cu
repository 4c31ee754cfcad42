__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
// Each pair of blocks adds one to its elements, and then to those of the pairs that it takes off the launch.
extern "C" __global__ void __cluster_dims__(2, 1, 1) taken_over_pairs(int* out, int* by) {
    __shared__ __align__(16) unsigned answer[4];
    __shared__ unsigned long long arrived;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(at(&arrived)));
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;");
    unsigned rank, x = blockIdx.x;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    for (int parity = 0;; parity ^= 1) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.relaxed.cluster.shared::cta.b64 _, [%0], 16;" ::"r"(at(&arrived)));
            if (rank == 0)
                asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes" TO_ALL ".b128 [%0], [%1];"
                             ::"r"(at(answer)), "r"(at(&arrived)));
            out[x] += 1;
            by[x] = blockIdx.x;
        }
        WAIT;
        unsigned found;
        asm volatile("{ .reg .b128 answer; .reg .pred p;\n"
                     "ld.shared.b128 answer, [%2];\n"
                     "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, answer; }"
                     : "=r"(found), "+r"(x) : "r"(at(answer)));
        x += found ? rank : 0;
        AGAIN;
        if (!found) return;
    }
}
