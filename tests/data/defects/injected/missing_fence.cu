// The last block sums what the others stored, but nothing makes their stores visible to it.
__device__ int blocks_done = 0;
extern "C" __global__ void missing_fence(float* out, const float* in, int n) {
    if (threadIdx.x == 0) out[blockIdx.x] = in[blockIdx.x];
    __shared__ bool last;
    if (threadIdx.x == 0) last = atomicAdd(&blocks_done, 1) % gridDim.x == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0.0f;
        for (int block = 0; block < gridDim.x; ++block) sum += out[block];  // DEFECT: GLOBAL_RACE
        out[2] = sum;
    }
}
