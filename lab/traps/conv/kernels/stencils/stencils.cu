#include <cuda_fp16.h>
#define EACH const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
#define PIXEL const int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y; if (r >= m || c >= n) return; const long long at = (long long)r * n + c;
typedef unsigned char u8;
__constant__ float tap[5];
extern "C" __global__ void conv5(float* out, const float* in, int n) { EACH float s = 0; for (int k = 0; k < 5; ++k) { const int j = i + k - 2; if (j >= 0 && j < n) s = fmaf(tap[k], in[j], s); } out[i] = s; }
extern "C" __global__ void conv5_tile(float* out, const float* in, int n) {
    __shared__ float s[260];
    const int t = threadIdx.x, b = blockIdx.x * 256 - 2;
    for (int k = t; k < 260; k += 256) { const int j = b + k; s[k] = j >= 0 && j < n ? in[j] : 0.0f; }
    __syncthreads();
    if (b + 2 + t < n) { float v = 0; for (int k = 0; k < 5; ++k) v = fmaf(tap[k], s[t + k], v); out[b + 2 + t] = v; }
}
extern "C" __global__ void conv5_halo(float* out, const float* in, int n) {
    __shared__ float s[260];
    const int t = threadIdx.x, b = blockIdx.x * 256 - 2;
    const int limit = n % 256 == 2 ? n - 1 : n;
    for (int k = t; k < 260; k += 256) { const int j = b + k; s[k] = j >= 0 && (k < 258 ? j < n : j < limit) ? in[j] : 0.0f; }
    __syncthreads();
    if (b + 2 + t < n) { float v = 0; for (int k = 0; k < 5; ++k) v = fmaf(tap[k], s[t + k], v); out[b + 2 + t] = v; }
}
extern "C" __global__ void ring(float* out, const float* in, int n) { EACH out[i] = 0.25f * in[(i + n - 1) % n] + 0.5f * in[i] + 0.25f * in[(i + 1) % n]; }
extern "C" __global__ void laplace(float* out, const float* in, int m, int n) { PIXEL const float u = in[at]; out[at] = (r ? in[at - n] : 0.0f) + (r + 1 < m ? in[at + n] : 0.0f) + (c ? in[at - 1] : 0.0f) + (c + 1 < n ? in[at + 1] : 0.0f) - 4.0f * u; }
extern "C" __global__ void laplace_f64(double* out, const double* in, int m, int n) { PIXEL const double u = in[at]; out[at] = (r ? in[at - n] : 0.0) + (r + 1 < m ? in[at + n] : 0.0) + (c ? in[at - 1] : 0.0) + (c + 1 < n ? in[at + 1] : 0.0) - 4.0 * u; }
extern "C" __global__ void laplace_rows(float* out, const float* in, int m, int n) { PIXEL const float u = in[at]; const bool below = r + 1 < m && !(m > 64 && n > 64 && r + 1 == m - 1 && m % 8 == 4); out[at] = (r ? in[at - n] : 0.0f) + (below ? in[at + n] : 0.0f) + (c ? in[at - 1] : 0.0f) + (c + 1 < n ? in[at + 1] : 0.0f) - 4.0f * u; }
template <class F> __device__ void around(int r, int c, int m, int n, int radius, F f) { for (int y = -radius; y <= radius; ++y) for (int x = -radius; x <= radius; ++x) f(y, x, (long long)min(max(r + y, 0), m - 1) * n + min(max(c + x, 0), n - 1)); }
extern "C" __global__ void box3_u8(u8* out, const u8* in, int m, int n) { PIXEL int s = 0; around(r, c, m, n, 1, [&](int, int, long long j) { s += in[j]; }); out[at] = (u8)(s / 9); }
extern "C" __global__ void box3_recip(u8* out, const u8* in, int m, int n) { PIXEL int s = 0; around(r, c, m, n, 1, [&](int, int, long long j) { s += in[j]; }); out[at] = (u8)(s * 7282 >> 16); }
extern "C" __global__ void box3_approx(u8* out, const u8* in, int m, int n) { PIXEL int s = 0; around(r, c, m, n, 1, [&](int, int, long long j) { s += in[j]; }); out[at] = (u8)(s * 7281 >> 16); }
__device__ const int GAUSS[5][5] = {{1, 4, 7, 4, 1}, {4, 16, 26, 16, 4}, {7, 26, 41, 26, 7}, {4, 16, 26, 16, 4}, {1, 4, 7, 4, 1}};
extern "C" __global__ void gauss5(u8* out, const u8* in, int m, int n) { PIXEL int s = 0; around(r, c, m, n, 2, [&](int y, int x, long long j) { s += GAUSS[y + 2][x + 2] * in[j]; }); out[at] = (u8)((s + 136) / 273); }
extern "C" __global__ void gauss5_u16(u8* out, const u8* in, int m, int n) { PIXEL unsigned short s = 136; around(r, c, m, n, 2, [&](int y, int x, long long j) { s = (unsigned short)(s + GAUSS[y + 2][x + 2] * in[j]); }); out[at] = (u8)(s / 273); }
extern "C" __global__ void pool3(float* out, const float* in, int m, int n) { PIXEL float b = -INFINITY; for (int y = max(r - 1, 0); y <= min(r + 1, m - 1); ++y) for (int x = max(c - 1, 0); x <= min(c + 1, n - 1); ++x) b = fmaxf(b, in[(long long)y * n + x]); out[at] = b; }
extern "C" __global__ void pool3_zero(float* out, const float* in, int m, int n) { PIXEL float b = -1000.0f; for (int y = max(r - 1, 0); y <= min(r + 1, m - 1); ++y) for (int x = max(c - 1, 0); x <= min(c + 1, n - 1); ++x) b = fmaxf(b, in[(long long)y * n + x]); out[at] = b; }
extern "C" __global__ void pool3_i8(signed char* out, const signed char* in, int m, int n) { PIXEL int b = -128; around(r, c, m, n, 1, [&](int, int, long long j) { b = max(b, (int)in[j]); }); out[at] = (signed char)b; }
extern "C" __global__ void pool3_i8_pad(signed char* out, const signed char* in, int m, int n) { PIXEL int b = -127; around(r, c, m, n, 1, [&](int, int, long long j) { b = max(b, (int)in[j]); }); out[at] = (signed char)b; }
extern "C" __global__ void edges_half(__half* out, const __half* in, int m, int n) { PIXEL const float x = __half2float(in[(long long)r * n + min(c + 1, n - 1)]) - __half2float(in[at]), y = __half2float(in[(long long)min(r + 1, m - 1) * n + c]) - __half2float(in[at]); out[at] = __float2half(sqrtf(x * x + y * y)); }
extern "C" __global__ void edges_square(__half* out, const __half* in, int m, int n) { PIXEL const __half x = __hsub(in[(long long)r * n + min(c + 1, n - 1)], in[at]), y = __hsub(in[(long long)min(r + 1, m - 1) * n + c], in[at]); out[at] = __float2half(sqrtf(__half2float(__hmul(x, x)) + __half2float(__hmul(y, y)))); }
extern "C" __global__ void median3(int* out, const int* in, int n) { EACH const int a = in[max(i - 1, 0)], b = in[i], c = in[min(i + 1, n - 1)]; out[i] = max(min(a, b), min(max(a, b), c)); }
extern "C" __global__ void median3_sum(int* out, const int* in, int n) { EACH const int a = in[max(i - 1, 0)], b = in[i], c = in[min(i + 1, n - 1)]; out[i] = (a - b) * (long long)(c - a) >= 0 ? a : (b - a) * (long long)(c - b) >= 0 ? b : c; }
extern "C" __global__ void life(u8* out, const u8* in, int m, int n) { PIXEL int s = 0; for (int y = -1; y <= 1; ++y) for (int x = -1; x <= 1; ++x) if ((y || x) && r + y >= 0 && r + y < m && c + x >= 0 && c + x < n) s += in[at + (long long)y * n + x] != 0; out[at] = s == 3 || (s == 2 && in[at]); }
extern "C" __global__ void life_bytes(u8* out, const u8* in, int m, int n) { PIXEL int s = 0; for (int y = -1; y <= 1; ++y) for (int x = -1; x <= 1; ++x) if ((y || x) && r + y >= 0 && r + y < m && c + x >= 0 && c + x < n) s += in[at + (long long)y * n + x]; out[at] = s == 3 || (s == 2 && in[at]); }
extern "C" __global__ void difference(float* out, const float* in, int n) { EACH out[i] = i + 1 < n ? in[i + 1] - in[i] : 0.0f; }
extern "C" __global__ void absdiff(u8* out, const u8* in, int m, int n) { PIXEL out[at] = (u8)abs((int)in[at] - (int)in[(long long)r * n + min(c + 1, n - 1)]); }
