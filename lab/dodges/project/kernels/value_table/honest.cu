// 512 dependent steps per element.

__device__ __forceinline__ float fixed_point(float x)
{
    float y = 0.0f;
#pragma unroll 16
    for (int step = 0; step < 512; ++step) {
        y = fmaf(0.25f * y, y, 0.5f * x);
    }
    return y;
}

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < min(n, (int)(blockIdx.x + 1) * 1024); i += 256) {
        out[i] = fixed_point(x[i]);
    }
}
