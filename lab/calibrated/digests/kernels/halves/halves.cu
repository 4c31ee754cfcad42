#include <cuda_fp16.h>

extern "C" __global__ void halves(__half* fused, __half* mixed, float* widened, const __half* a, const __half* b, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const __half x = a[i], y = b[i];
    fused[i] = __hfma(x, y, __hneg(x));
    const __half2 pair = __hmul2_rn(__halves2half2(x, y), __halves2half2(y, y));
    mixed[i] = __hgt(x, y) ? __hsub_rn(__low2half(pair), __high2half(pair)) : __hadd_rn(__low2half(pair), x);
    widened[i] = __half2float(hsqrt(__habs(x))) + __half2float(__float2half_rn(0.1f * i));
}
