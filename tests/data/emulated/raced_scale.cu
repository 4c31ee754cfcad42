extern "C" __global__ void scale(float* out, const float* in, int n)
{
    __shared__ float tile[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? in[i] : 0.0f;
    const float other = tile[threadIdx.x ^ 32];
    if (i < n) out[i] = 2.0f * tile[threadIdx.x] + 0.0f * other;
}
