// Copies that nobody waits for are under way when the block ends; what is not read of a source may lie anywhere.
extern "C" __global__ void copies_left_open(float* out, const float* in, int n) {
    __shared__ float tile[64], unused[64];
    const int thread = threadIdx.x;
    __pipeline_memcpy_async(&tile[thread], &in[thread], sizeof(float));
    __pipeline_commit();
    __pipeline_memcpy_async(&unused[thread], &in[64 + thread], sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __pipeline_memcpy_async(&unused[thread], in + 1000 * n, sizeof(float), sizeof(float));
    out[blockIdx.x * blockDim.x + thread] = tile[thread];
}
