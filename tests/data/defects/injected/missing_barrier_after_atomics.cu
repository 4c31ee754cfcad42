// A histogram in shared memory that is read before every thread has added to it.
extern "C" __global__ void missing_barrier_after_atomics(float* out, const float* in, int n) {
    __shared__ int bins[64];
    bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[threadIdx.x / 2], 1);
    out[blockIdx.x * blockDim.x + threadIdx.x] = bins[63 - threadIdx.x];  // DEFECT: SHARED_RACE
}
