#include <cuda_fp8.h>

extern "C" __global__ void narrow(unsigned char* e4m3, unsigned char* e5m2, float* widened, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float x = in[i] * (i % 7 ? 1.0f : 600.0f) * (i % 5 ? 1.0f : 0.004f);
    const __nv_fp8_e4m3 a(x);
    const __nv_fp8_e5m2 b(x);
    e4m3[i] = a.__x;
    e5m2[i] = b.__x;
    widened[i] = static_cast<float>(a);
}
