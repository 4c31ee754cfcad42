// Each thread waits for its own copies and then reads those of others.
extern "C" __global__ void async_copy_without_barrier(float* out, const float* in, int n) {
    __shared__ float tile[64];
    __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[63 - threadIdx.x];  // DEFECT: SHARED_RACE
}
