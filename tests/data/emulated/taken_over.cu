__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
// Each block adds one to its element, and then to those of the blocks that it takes off the launch.
extern "C" __global__ void taken_over(int* out, int* by) {
    __shared__ __align__(16) unsigned answer[4];
    __shared__ unsigned long long arrived;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(at(&arrived)));
    }
    __syncthreads();
    unsigned x = blockIdx.x, y = blockIdx.y;
    for (int parity = 0;; parity ^= 1) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 16;" ::"r"(at(&arrived)));
            asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                         ::"r"(at(answer)), "r"(at(&arrived)));
            out[y * gridDim.x + x] += 1;
            by[y * gridDim.x + x] = blockIdx.y * gridDim.x + blockIdx.x;
        }
        WAIT;
        unsigned found;
        asm volatile("{ .reg .b128 answer; .reg .pred p;\n"
                     "ld.shared.b128 answer, [%3];\n"
                     "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, %2, _, _}, answer; }"
                     : "=r"(found), "+r"(x), "+r"(y) : "r"(at(answer)));
        AGAIN;
        if (!found) return;
    }
}
