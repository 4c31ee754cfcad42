// Waits for all groups but the newest, and uses the newest.
extern "C" __global__ void async_copy_of_wrong_group(float* out, const float* in, int n) {
    __shared__ float tile[2][64];
    for (int group = 0; group < 2; ++group) {
        tile[group][threadIdx.x] = 0.0f;
        __pipeline_memcpy_async(&tile[group][threadIdx.x], &in[threadIdx.x], sizeof(float));
        __pipeline_commit();
    }
    __pipeline_wait_prior(1);
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[0][threadIdx.x] + tile[1][threadIdx.x];  // DEFECT: UNINITIALISED_SHARED
}
