// The source is shared memory: only global memory can be copied from.
extern "C" __global__ void async_copy_from_shared(float* out, const float* in, int n) {
    __shared__ float tile[64], copied[64];
    tile[threadIdx.x] = in[threadIdx.x];
    __pipeline_memcpy_async(&copied[threadIdx.x], &tile[threadIdx.x], sizeof(float));  // DEFECT: OUT_OF_BOUNDS
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[blockIdx.x * blockDim.x + threadIdx.x] = copied[threadIdx.x];
}
