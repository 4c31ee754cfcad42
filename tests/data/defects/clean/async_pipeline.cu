// Two tiles in turn: the next one is on its way while this one is used. Part of the last copy is zero-filled.
extern "C" __global__ void async_pipeline(float* out, const float* in, int n) {
    __shared__ float4 tile[2][16];
    const int thread = threadIdx.x;
    if (thread < 16) __pipeline_memcpy_async(&tile[0][thread], &in[4 * thread], 16);
    __pipeline_commit();
    float sum = 0.0f;
    for (int step = 0; step < 2; ++step) {
        if (step == 0 && thread < 16) __pipeline_memcpy_async(&tile[1][thread], &in[64 + 4 * thread], 16, 8);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        const float4 quad = tile[step][15 - thread / 4];
        sum += quad.x + quad.y + quad.z + quad.w;
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + thread] = sum;
}
