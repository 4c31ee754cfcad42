// The next copy is issued into a tile that other threads still read.
extern "C" __global__ void async_copy_into_tile_in_use(float* out, const float* in, int n) {
    __shared__ float tile[64];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const float value = tile[63 - threadIdx.x];
    __pipeline_memcpy_async(&tile[threadIdx.x], &in[64 + threadIdx.x], sizeof(float));  // DEFECT: SHARED_RACE
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = value + tile[63 - threadIdx.x];
}
