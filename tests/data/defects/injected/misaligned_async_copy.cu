// Sixteen bytes from an address that is no multiple of them.
extern "C" __global__ void misaligned_async_copy(float* out, const float* in, int n) {
    __shared__ float4 tile[64];
    __pipeline_memcpy_async(&tile[threadIdx.x], &in[1], sizeof(float4));  // DEFECT: MISALIGNED
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x].x;
}
