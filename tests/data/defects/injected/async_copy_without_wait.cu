// The copies are committed but never waited for.
extern "C" __global__ void async_copy_without_wait(float* out, const float* in, int n) {
    __shared__ float tile[64];
    __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], sizeof(float));
    __pipeline_commit();
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x];  // DEFECT: UNINITIALISED_SHARED
}
