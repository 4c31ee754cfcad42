// Without clusters each block is one of its own: a fence of cluster scope orders nothing between blocks.
__device__ int blocks_summed = 0;
extern "C" __global__ void cluster_fence_between_blocks(float* out, const float* in, int n) {
    if (threadIdx.x != 0) return;
    out[blockIdx.x] = in[blockIdx.x];
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
    if (atomicAdd(&blocks_summed, 1) % gridDim.x != gridDim.x - 1) return;
    __threadfence();
    out[2] = out[0] + out[1];  // DEFECT: GLOBAL_RACE
}
