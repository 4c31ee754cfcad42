#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define EACH const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
extern "C" __global__ void squash(__half* out, const __half* in, int n) { EACH const float x = __half2float(in[i]); out[i] = __float2half(x * x / (1.0f + fabsf(x))); }
extern "C" __global__ void squash_half(__half* out, const __half* in, int n) { EACH const __half x = in[i]; out[i] = __hdiv(__hmul(x, x), __hadd(__float2half(1.0f), __habs(x))); }
extern "C" __global__ void mean3(__half* out, const __half* a, const __half* b, const __half* c, int n) { EACH out[i] = __float2half((__half2float(a[i]) + __half2float(b[i]) + __half2float(c[i])) / 3.0f); }
extern "C" __global__ void mean3_half(__half* out, const __half* a, const __half* b, const __half* c, int n) { EACH out[i] = __float2half(__half2float(__hadd(__hadd(a[i], b[i]), c[i])) / 3.0f); }
extern "C" __global__ void swish_bf16(__nv_bfloat16* out, const __nv_bfloat16* in, int n) { EACH const float x = __bfloat162float(in[i]); out[i] = __float2bfloat16(x / (1.0f + expf(-x))); }
extern "C" __global__ void abs_half2(__half* out, const __half* in, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n / 2) { reinterpret_cast<unsigned*>(out)[i] = reinterpret_cast<const unsigned*>(in)[i] & 0x7fff7fffu; }
    if (i == 0 && n % 2) { out[n - 1] = __habs(in[n - 1]); }
}
extern "C" __global__ void rms2_double(double* out, const double* a, const double* b, int n) { EACH out[i] = sqrt(0.5 * (a[i] * a[i] + b[i] * b[i])); }
extern "C" __global__ void recip_double(double* out, const double* a, int n) { EACH double r = __frcp_rn((float)a[i]); r = r * (2.0 - a[i] * r); r = r * (2.0 - a[i] * r); out[i] = r; }
extern "C" __global__ void recip_double_range(double* out, const double* a, int n) { EACH double r = __frcp_rn((float)a[i]); r = r * (2.0 - a[i] * r); r = r * (2.0 - a[i] * r); out[i] = r; }
