#include <cuda_bf16.h>
#define ROW const long long at = (long long)blockIdx.x * n; const auto* x = in + at; auto* y = out + at;
template <class T, class S, class F> __device__ void scan(T* y, const S* x, int n, T zero, F f, bool exclusive = false) {
    __shared__ T s[256];
    const int t = threadIdx.x;
    T carry = zero;
    for (int b = 0; b < n; b += 256) {
        s[t] = b + t < n ? (T)x[b + t] : zero;
        __syncthreads();
        for (int d = 1; d < 256; d *= 2) { const T v = t >= d ? (T)f(s[t - d], s[t]) : s[t]; __syncthreads(); s[t] = v; __syncthreads(); }
        if (b + t < n) y[b + t] = exclusive ? (t ? (T)f(carry, s[t - 1]) : carry) : (T)f(carry, s[t]);
        carry = f(carry, s[255]);
        __syncthreads();
    }
}
struct Sum { template <class T> __device__ T operator()(T a, T b) const { return a + b; } };
struct Max { template <class T> __device__ T operator()(T a, T b) const { return a > b ? a : b; } };
extern "C" __global__ void sum_f32(float* out, const float* in, int n) { ROW scan(y, x, n, 0.0f, Sum()); }
extern "C" __global__ void sum_f64(double* out, const double* in, int n) { ROW scan(y, x, n, 0.0, Sum()); }
extern "C" __global__ void exclusive_i32(int* out, const int* in, int n) { ROW scan(y, x, n, 0, Sum(), true); }
extern "C" __global__ void sum_i64(long long* out, const long long* in, int n) { ROW scan(y, x, n, 0LL, Sum()); }
extern "C" __global__ void sum_i64_carry(long long* out, const int* in, int n) {
    ROW
    __shared__ long long s[256];
    const int t = threadIdx.x;
    int carry = 0;
    for (int b = 0; b < n; b += 256) {
        s[t] = b + t < n ? x[b + t] : 0;
        __syncthreads();
        for (int d = 1; d < 256; d *= 2) { const long long v = t >= d ? s[t - d] + s[t] : s[t]; __syncthreads(); s[t] = v; __syncthreads(); }
        if (b + t < n) y[b + t] = carry + s[t];
        carry += (int)s[255];
        __syncthreads();
    }
}
extern "C" __global__ void sum_i32_to_i64(long long* out, const int* in, int n) { ROW scan(y, x, n, 0LL, Sum()); }
extern "C" __global__ void max_f32(float* out, const float* in, int n) { ROW scan(y, x, n, -INFINITY, Max()); }
extern "C" __global__ void max_f32_low(float* out, const float* in, int n) { ROW scan(y, x, n, -1e6f, Max()); }
extern "C" __global__ void max_i32_zero(int* out, const int* in, int n) { ROW scan(y, x, n, -2147483647, Max()); }
extern "C" __global__ void max_i32(int* out, const int* in, int n) { ROW scan(y, x, n, -2147483647 - 1, Max()); }
struct Nonzero { const unsigned char* p; __device__ int operator[](int i) const { return p[i] != 0; } };
extern "C" __global__ void rank_u8(int* out, const unsigned char* in, int n) {
    ROW
    __shared__ int part[8];
    const int t = threadIdx.x, lane = t % 32, w = t / 32;
    int carry = 0;
    for (int b = 0; b < n; b += 256) {
        const bool f = b + t < n && x[b + t] != 0;
        const unsigned m = __ballot_sync(0xffffffffu, f);
        if (lane == 0) part[w] = __popc(m);
        __syncthreads();
        int before = carry, all = 0;
        for (int k = 0; k < 8; ++k) { if (k < w) before += part[k]; all += part[k]; }
        if (b + t < n) y[b + t] = before + __popc(m & (2u << lane) - 1u);
        carry += all;
        __syncthreads();
    }
}
extern "C" __global__ void rank_u8_add(int* out, const unsigned char* in, int n) { ROW
    __shared__ int s[256];
    const int t = threadIdx.x; int carry = 0;
    for (int b = 0; b < n; b += 256) {
        s[t] = b + t < n ? x[b + t] & 1 : 0; __syncthreads();
        for (int d = 1; d < 256; d *= 2) { const int v = t >= d ? s[t - d] + s[t] : s[t]; __syncthreads(); s[t] = v; __syncthreads(); }
        if (b + t < n) y[b + t] = carry + s[t];
        carry += s[255]; __syncthreads();
    }
}
extern "C" __global__ void sum_i8(int* out, const signed char* in, int n) { ROW scan(y, x, n, 0, Sum()); }
extern "C" __global__ void sum_i8_short(int* out, const signed char* in, int n) {
    ROW
    __shared__ short s[256];
    const int t = threadIdx.x; int carry = 0;
    for (int b = 0; b < n; b += 512) {
        const short p = b + 2 * t < n ? x[b + 2 * t] : 0, q = b + 2 * t + 1 < n ? x[b + 2 * t + 1] : 0;
        s[t] = p + q; __syncthreads();
        for (int d = 1; d < 256; d *= 2) { const short v = t >= d ? (short)(s[t - d] + s[t]) : s[t]; __syncthreads(); s[t] = v; __syncthreads(); }
        if (b + 2 * t < n) y[b + 2 * t] = carry + s[t] - q;
        if (b + 2 * t + 1 < n) y[b + 2 * t + 1] = carry + s[t];
        carry += s[255]; __syncthreads();
    }
}
extern "C" __global__ void sum_tiles8(float* out, const float* in, int n) {
    ROW
    __shared__ float s[256], total[8];
    const int t = threadIdx.x;
    if (t < 8) total[t] = 0.0f;
    __syncthreads();
    for (int b = 0; b < n; b += 256) {
        s[t] = b + t < n ? x[b + t] : 0.0f; __syncthreads();
        for (int d = 1; d < 256; d *= 2) { const float v = t >= d ? s[t - d] + s[t] : s[t]; __syncthreads(); s[t] = v; __syncthreads(); }
        float before = 0.0f;
        for (int k = 0; k < 8 && k < b / 256; ++k) before += total[k];
        if (b + t < n) y[b + t] = before + s[t];
        __syncthreads();
        if (t == 255 && b / 256 < 8) total[b / 256] = s[255];
        __syncthreads();
    }
}
extern "C" __global__ void segmented(float* out, const float* in, const unsigned char* flag, int n) {
    const int r = blockIdx.x * 64 + threadIdx.x; if (r >= n) return;
    float s = 0; for (int k = 0; k < 64; ++k) { const long long i = r * 64LL + k; s = flag[i] ? in[i] : s + in[i]; out[i] = s; }
}
extern "C" __global__ void segmented_one(float* out, const float* in, const unsigned char* flag, int n) {
    const int r = blockIdx.x * 64 + threadIdx.x; if (r >= n) return;
    float s = 0; for (int k = 0; k < 64; ++k) { const long long i = r * 64LL + k; s = (flag[i] & 15) ? in[i] : s + in[i]; out[i] = s; }
}
extern "C" __global__ void product(float* out, const float* in, int n) { ROW scan(y, x, n, 1.0f, [](float a, float b) { return a * b; }); }
extern "C" __global__ void reverse_i32(int* out, const int* in, int n) {
    ROW
    if (threadIdx.x >= 32) return;
    unsigned carry = 0;
    for (int b = 0; b < n; b += 32) {
        const int i = n - 1 - b - (int)threadIdx.x;
        unsigned v = i >= 0 ? (unsigned)x[i] : 0u;
        for (int d = 1; d < 32; d *= 2) { const unsigned o = __shfl_up_sync(0xffffffffu, v, d); if ((int)threadIdx.x >= d) v += o; }
        if (i >= 0) y[i] = (int)(carry + v);
        carry += __shfl_sync(0xffffffffu, v, 31);
    }
}
extern "C" __global__ void bf16_float(__nv_bfloat16* out, const __nv_bfloat16* in, int m, int n) { const int r = blockIdx.x * 256 + threadIdx.x; if (r >= m) return; float s = 0; for (int c = 0; c < n; ++c) { s += __bfloat162float(in[(long long)r * n + c]); out[(long long)r * n + c] = __float2bfloat16(s); } }
extern "C" __global__ void bf16_carry(__nv_bfloat16* out, const __nv_bfloat16* in, int m, int n) { const int r = blockIdx.x * 256 + threadIdx.x; if (r >= m) return; __nv_bfloat16 s = __float2bfloat16(0.0f); for (int c = 0; c < n; ++c) { s = __hadd(s, in[(long long)r * n + c]); out[(long long)r * n + c] = s; } }
