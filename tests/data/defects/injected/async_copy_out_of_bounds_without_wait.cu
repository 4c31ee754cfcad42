// The last copy reads behind the array, for nobody: it is never waited for.
extern "C" __global__ void async_copy_out_of_bounds_without_wait(float* out, const float* in, int n) {
    __shared__ float tile[64];
    const float* source = &in[blockIdx.x * 64 + threadIdx.x + 1];
    __pipeline_memcpy_async(&tile[threadIdx.x], source, sizeof(float));  // DEFECT: OUT_OF_BOUNDS
    __pipeline_commit();
    out[blockIdx.x * blockDim.x + threadIdx.x] = 0.0f;
}
