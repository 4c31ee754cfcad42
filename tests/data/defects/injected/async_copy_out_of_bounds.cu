// The source of the last copy lies behind the array.
extern "C" __global__ void async_copy_out_of_bounds(float* out, const float* in, int n) {
    __shared__ float tile[64];
    const float* source = &in[blockIdx.x * 64 + threadIdx.x + 1];
    __pipeline_memcpy_async(&tile[threadIdx.x], source, sizeof(float));  // DEFECT: OUT_OF_BOUNDS
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x];
}
