// 512 dependent steps in float32 per element.
#include <cuda_fp16.h>

__device__ __forceinline__ float fixed_point(float x)
{
    float y = 0.0f;
#pragma unroll 16
    for (int step = 0; step < 512; ++step) {
        y = fmaf(0.25f * y, y, 0.5f * x);
    }
    return y;
}

extern "C" __global__ void honest(__half* out, const __half* x, int n)
{
    for (int i = blockIdx.x * 32768 + threadIdx.x; i < min(n, (int)(blockIdx.x + 1) * 32768); i += 256) {
        out[i] = __float2half(fixed_point(__half2float(x[i])));
    }
}
