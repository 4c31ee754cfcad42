// The last block to finish sums what all blocks stored: a fence before the counter, as the programming guide has it.
__device__ unsigned blocks_done = 0;
extern "C" __global__ void last_block_sums(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
    __threadfence();
    __syncthreads();
    __shared__ bool last;
    if (threadIdx.x == 0) last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0.0f;
        for (unsigned k = 0; k < gridDim.x * blockDim.x; ++k) sum += out[k];
        out[0] = sum;
    }
}
