// Half of the tile is never written.
extern "C" __global__ void uninitialised_shared(float* out, const float* in, int n) {
    __shared__ float tile[64];
    if (threadIdx.x % 2) tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x];  // DEFECT: UNINITIALISED_SHARED
}
