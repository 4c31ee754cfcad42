#include <cuda/barrier>
#include <cuda/ptx>
#include <cuda/std/utility>
namespace ptx = cuda::ptx;
extern "C" __global__ void copies(float* out, const float* in, int waits, int fences) {
    __shared__ alignas(128) float tile[64];
    __shared__ alignas(8) cuda::std::uint64_t full;
    const bool leads = threadIdx.x < 32 && ptx::elect_sync(~0u);
    if (leads) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    if (leads) {
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof tile);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, in, sizeof tile, &full);
    }
    while (waits && !ptx::mbarrier_try_wait_parity(&full, 0)) {}
    tile[threadIdx.x] *= 2;
    if (fences) ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (leads) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out, tile, sizeof tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
    }
}
