#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define ROW const int t = threadIdx.x; const long long r = blockIdx.x; const auto* x = in + r * n; auto* y = out + r * n;
#define ROW1 const int t = threadIdx.x; const long long r = blockIdx.x; const auto* x = in + r * n;
#define COLUMNS for (int c = t; c < n; c += 128)
template <class T, class F> __device__ T reduce(T v, F f) {
    __shared__ T part[128];
    const int t = threadIdx.x;
    __syncthreads();
    part[t] = v;
    __syncthreads();
    for (int d = 64; d; d >>= 1) { if (t < d) part[t] = f(part[t], part[t + d]); __syncthreads(); }
    return part[0];
}
__device__ float add(float v) { return reduce(v, [](float a, float b) { return a + b; }); }
__device__ float largest(float v) { return reduce(v, [](float a, float b) { return fmaxf(a, b); }); }
__device__ float row_max(const float* x, int n, float start = -INFINITY) { float b = start; for (int c = threadIdx.x; c < n; c += 128) b = fmaxf(b, x[c]); return largest(b); }
struct Online { float m, s; };
__device__ Online merge(Online a, Online b) { const float m = fmaxf(a.m, b.m); if (m == -INFINITY) return a; return {m, a.s * expf(a.m - m) + b.s * expf(b.m - m)}; }
#define FF(name) extern "C" __global__ void name(float* out, const float* in, int n)
FF(three_pass) { ROW const float m = row_max(x, n); float s = 0; COLUMNS s += expf(x[c] - m); s = add(s); COLUMNS y[c] = expf(x[c] - m) / s; }
FF(no_max) { ROW float s = 0; COLUMNS s += expf(x[c]); s = add(s); COLUMNS y[c] = expf(x[c]) / s; }
FF(max_from_zero) { ROW const float m = row_max(x, n, 0.0f); float s = 0; COLUMNS s += expf(x[c] - m); s = add(s); COLUMNS y[c] = expf(x[c] - m) / s; }
FF(clamp_80) { ROW float s = 0; COLUMNS s += expf(fminf(fmaxf(x[c], -80.0f), 80.0f)); s = add(s); COLUMNS y[c] = expf(fminf(fmaxf(x[c], -80.0f), 80.0f)) / s; }
FF(online) { ROW Online o = {-INFINITY, 0}; COLUMNS o = merge(o, {x[c], 1.0f}); o = reduce(o, [](Online a, Online b) { return merge(a, b); }); COLUMNS y[c] = expf(x[c] - o.m) / o.s; }
FF(online_lazy) {
    ROW
    Online o = {-INFINITY, 0};
    COLUMNS { const float v = x[c]; if (v > o.m + 16.0f) { o.s = o.s * expf(o.m - v); o.m = v; } o.s += expf(v - o.m); }
    o = reduce(o, [](Online a, Online b) { return merge(a, b); });
    COLUMNS y[c] = expf(x[c] - o.m) / o.s;
}
FF(online_dropped) {
    ROW
    Online o = {-INFINITY, 0};
    COLUMNS { const float v = x[c]; if (v > o.m + 4.0f) { o.s = 1.0f; o.m = v; } else { o.s += expf(v - o.m); } }
    o = reduce(o, [](Online a, Online b) { return merge(a, b); });
    COLUMNS y[c] = expf(x[c] - o.m) / o.s;
}
FF(fast) { ROW const float m = row_max(x, n); float s = 0; COLUMNS s += __expf(x[c] - m); s = 1.0f / add(s); COLUMNS y[c] = __expf(x[c] - m) * s; }
FF(log_soft) { ROW const float m = row_max(x, n); float s = 0; COLUMNS s += expf(x[c] - m); s = logf(add(s)); COLUMNS y[c] = (x[c] - m) - s; }
FF(log_of_soft) { ROW const float m = row_max(x, n); float s = 0; COLUMNS s += expf(x[c] - m); s = add(s); COLUMNS y[c] = logf(expf(x[c] - m) / s); }
FF(lse) { ROW1 const float m = row_max(x, n); float s = 0; COLUMNS s += expf(x[c] - m); s = add(s); if (t == 0) out[r] = m + logf(s); }
FF(lse_direct) { ROW1 float s = 0; COLUMNS s += expf(x[c]); s = add(s); if (t == 0) out[r] = logf(s); }
FF(share) { ROW float s = 0; COLUMNS s += x[c]; s = add(s); COLUMNS y[c] = s != 0.0f ? x[c] / s : 0.0f; }
FF(share_positive) { ROW float s = 0; COLUMNS s += x[c]; s = fmaxf(add(s), 1e-30f); COLUMNS y[c] = x[c] / s; }
FF(absmax) { ROW float b = 0; COLUMNS b = fmaxf(b, fabsf(x[c])); b = largest(b); COLUMNS y[c] = x[c] / b; }
FF(absmax_recip) { ROW float b = 0; COLUMNS b = fmaxf(b, fabsf(x[c])); b = 1.0f / (largest(b) + 1e-6f); COLUMNS y[c] = x[c] * b; }
extern "C" __global__ void soft_half(__half* out, const __half* in, int n) { ROW float m = -INFINITY; COLUMNS m = fmaxf(m, __half2float(x[c])); m = largest(m); float s = 0; COLUMNS s += expf(__half2float(x[c]) - m); s = add(s); COLUMNS y[c] = __float2half(expf(__half2float(x[c]) - m) / s); }
extern "C" __global__ void soft_half_start(__half* out, const __half* in, int n) { ROW float m = -1000.0f; COLUMNS m = fmaxf(m, __half2float(x[c])); m = largest(m); float s = 0; COLUMNS s += expf(__half2float(x[c]) - m); s = add(s); COLUMNS y[c] = __float2half(expf(__half2float(x[c]) - m) / s); }
extern "C" __global__ void masked(float* out, const float* in, const bool* mask, int n) {
    ROW
    const bool* k = mask + r * n;
    float m = -INFINITY; COLUMNS if (k[c]) m = fmaxf(m, x[c]); m = largest(m);
    float s = 0; COLUMNS if (k[c]) s += expf(x[c] - m); s = add(s);
    COLUMNS y[c] = k[c] ? expf(x[c] - m) / s : 0.0f;
}
extern "C" __global__ void masked_1e4(float* out, const float* in, const bool* mask, int n) {
    ROW
    const bool* k = mask + r * n;
    float m = -INFINITY; COLUMNS m = fmaxf(m, k[c] ? x[c] : -1e4f); m = largest(m);
    float s = 0; COLUMNS s += expf((k[c] ? x[c] : -1e4f) - m); s = add(s);
    COLUMNS y[c] = expf((k[c] ? x[c] : -1e4f) - m) / s;
}
extern "C" __global__ void entropy(float* out, const float* in, const int* label, int n) { ROW1 const float m = row_max(x, n); float s = 0; COLUMNS s += expf(x[c] - m); s = add(s); if (t == 0) out[r] = logf(s) - (x[label[r]] - m); }
extern "C" __global__ void entropy_eps(float* out, const float* in, const int* label, int n) { ROW1 const float m = row_max(x, n); float s = 0; COLUMNS s += expf(x[c] - m); s = add(s); if (t == 0) out[r] = -logf(expf(x[label[r]] - m) / s + 1e-12f); }
extern "C" __global__ void warp_rows(float* out, const float* in, int m, int n) {
    const int lane = threadIdx.x % 32; const long long r = blockIdx.x * 4 + threadIdx.x / 32;
    if (r >= m) return;
    const float* x = in + r * n; float* y = out + r * n;
    float b = -INFINITY;
    for (int c = lane; c < n; c += 32) b = fmaxf(b, x[c]);
    for (int d = 16; d; d >>= 1) b = fmaxf(b, __shfl_xor_sync(0xffffffffu, b, d));
    float s = 0;
    for (int c = lane; c < n; c += 32) s += expf(x[c] - b);
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
    for (int c = lane; c < n; c += 32) y[c] = expf(x[c] - b) / s;
}
