// Atomics on shared memory between barriers, then on global memory across blocks.
extern "C" __global__ void shared_histogram(float* out, const float* in, int n) {
    __shared__ int bins[8];
    if (threadIdx.x < 8) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[static_cast<int>(in[blockIdx.x * blockDim.x + threadIdx.x]) % 8], 1);
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
