#include <cooperative_groups.h>
extern "C" __global__ void divergent_group_barrier(float* out, const float* in, int n) {
    const auto block = cooperative_groups::this_thread_block();
    if (threadIdx.x < 32) {
        block.sync(); // DEFECT: DIVERGENT_BARRIER
        out[64 * blockIdx.x + threadIdx.x] = in[threadIdx.x];
    } else {
        out[64 * blockIdx.x + threadIdx.x] = in[0];
        block.sync();
    }
}
