// Two barriers in two branches do not make one.
extern "C" __global__ void divergent_barrier(float* out, const float* in, int n) {
    __shared__ float tile[64];
    tile[threadIdx.x] = in[threadIdx.x];
    float value;
    if (threadIdx.x < 32) {
        __syncthreads();  // DEFECT: DIVERGENT_BARRIER
        value = tile[threadIdx.x + 32];
    } else {
        __syncthreads();
        value = tile[threadIdx.x - 32];
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
