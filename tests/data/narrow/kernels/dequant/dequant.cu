// 8-bit floats (e4m3) to float32.
#include <cuda_fp8.h>
extern "C" __global__ void dequant(float* out, const __nv_fp8_e4m3* in, float scale, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { out[i] = scale * static_cast<float>(in[i]); }
}
