// Arithmetic in 16 bits, to be compared with NumPy's bit by bit.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void arithmetic(__half* out, const __half* a, const __half* b, const __half* c) {
    const int i = 7 * (blockIdx.x * blockDim.x + threadIdx.x);
    const __half x = a[i / 7], y = b[i / 7], z = c[i / 7];
    out[i] = x + y;
    out[i + 1] = x - y;
    out[i + 2] = __hmul(x, y);
    out[i + 3] = x / y;
    out[i + 4] = __hfma(x, y, z);
    out[i + 5] = hsqrt(__habs(x));
    out[i + 6] = __hgt(x, y) ? __hmax(x, y) : __hneg(x);
}
__global__ void narrowed(__half* out, const float* in, const double* wide) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[2 * i] = __float2half(in[i]);
    out[2 * i + 1] = __double2half(wide[i]);
}
__global__ void widened(float* out, const __half* in) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = __half2float(in[i]);
}
__global__ void brain(__nv_bfloat16* out, float* wide, const float* in) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[2 * i] = __float2bfloat16(in[i]);
    out[2 * i + 1] = out[2 * i] * __float2bfloat16(3.0f);
    wide[i] = __bfloat162float(out[2 * i]);
}
__global__ void pairs(__half2* out, const __half2* in, half factor) {
    const __half2 doubled = __hadd2(in[threadIdx.x], in[threadIdx.x]);
    const __half2 other = __shfl_xor_sync(0xffffffffu, doubled, 1);
    out[threadIdx.x] = __hfma2(other, __half2half2(factor), __floats2half2_rn(1.0f, 2.0f));
}
