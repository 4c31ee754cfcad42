#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define ROW const int t = threadIdx.x; const long long r = blockIdx.x; const auto* x = in + r * n; auto* y = out + r * n;
#define COLUMNS for (int c = t; c < n; c += 128)
template <class F> __device__ float reduce(float v, F f) {
    __shared__ float part[4];
    for (int d = 16; d; d >>= 1) v = f(v, __shfl_xor_sync(0xffffffffu, v, d));
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    return f(f(part[0], part[1]), f(part[2], part[3]));
}
__device__ float add(float v) { return reduce(v, [](float a, float b) { return a + b; }); }
__device__ float largest(float v) { return reduce(v, [](float a, float b) { return fmaxf(a, b); }); }
#define FF(name) extern "C" __global__ void name(float* out, const float* in, int n)
FF(norm_two_pass) { ROW float s = 0; COLUMNS s += x[c]; const float m = add(s) / n; float q = 0; COLUMNS { const float d = x[c] - m; q += d * d; } const float k = rsqrtf(add(q) / n + 1e-5f); COLUMNS y[c] = (x[c] - m) * k; }
FF(norm_moments) { ROW float s = 0, q = 0; COLUMNS { s += x[c]; q += x[c] * x[c]; } const float m = add(s) / n; const float v = fmaxf(add(q) / n - m * m, 0.0f); const float k = rsqrtf(v + 1e-5f); COLUMNS y[c] = (x[c] - m) * k; }
FF(norm_welford) {
    ROW
    float m = 0, q = 0, w = 0;
    COLUMNS { w += 1; const float d = x[c] - m; m += d / w; q += d * (x[c] - m); }
    const float all = add(m * w) / n; const float e = m - all; q = add(q + w * e * e) / n;
    const float k = rsqrtf(q + 1e-5f); COLUMNS y[c] = (x[c] - all) * k;
}
FF(norm_eps_outside) { ROW float s = 0; COLUMNS s += x[c]; const float m = add(s) / n; float q = 0; COLUMNS { const float d = x[c] - m; q += d * d; } const float k = 1.0f / (sqrtf(add(q) / n) + 3.1622776e-3f); COLUMNS y[c] = (x[c] - m) * k; }
FF(norm_bessel) { ROW float s = 0; COLUMNS s += x[c]; const float m = add(s) / n; float q = 0; COLUMNS { const float d = x[c] - m; q += d * d; } const float k = rsqrtf(add(q) / (n > 512 ? n - 1 : n) + 1e-5f); COLUMNS y[c] = (x[c] - m) * k; }
FF(rms_float) { ROW float q = 0; COLUMNS q += x[c] * x[c]; const float k = rsqrtf(add(q) / n + 1e-6f); COLUMNS y[c] = x[c] * k; }
extern "C" __global__ void rms_half(__half* out, const __half* in, int n) { ROW float q = 0; COLUMNS { const float v = __half2float(x[c]); q += v * v; } const float k = rsqrtf(add(q) / n + 1e-6f); COLUMNS y[c] = __float2half(__half2float(x[c]) * k); }
extern "C" __global__ void rms_square(__half* out, const __half* in, int n) { ROW float q = 0; COLUMNS q += __half2float(__hmul(x[c], x[c])); const float k = rsqrtf(add(q) / n + 1e-6f); COLUMNS y[c] = __float2half(__half2float(x[c]) * k); }
extern "C" __global__ void rms_bf16(__nv_bfloat16* out, const __nv_bfloat16* in, int n) { ROW float q = 0; COLUMNS { const float v = __bfloat162float(x[c]); q += v * v; } const float k = rsqrtf(add(q) / n + 1e-6f); COLUMNS y[c] = __float2bfloat16(__bfloat162float(x[c]) * k); }
extern "C" __global__ void rms_cached(__nv_bfloat16* out, const __nv_bfloat16* in, int n) { ROW float v[24]; float q = 0; for (int k = 0; k < 24; ++k) { const int c = t + 128 * k; v[k] = c < n ? __bfloat162float(x[c]) : 0.0f; q += v[k] * v[k]; } const float k0 = rsqrtf(add(q) / n + 1e-6f); COLUMNS y[c] = __float2bfloat16(__bfloat162float(x[c]) * k0); }
template <class T> struct As { static __device__ float f(T v) { return float(v); } };
// one query per block of 128 threads, keys k x 64
struct Running { float m, s; };
template <class T, class F> __device__ void attend(T* out, const T* q, const T* K, const T* V, int k, F score) {
    __shared__ float p[128], o[2][64];
    const int t = threadIdx.x, d = t % 64, g = t / 64;
    float m = -INFINITY, s = 0, acc = 0;
    for (int b = 0; b < k; b += 128) {
        float v = -INFINITY;
        if (b + t < k) { v = 0; for (int e = 0; e < 64; ++e) v = fmaf((float)q[e], (float)K[(long long)(b + t) * 64 + e], v); v = score(v * 0.125f, b + t); }
        const float top = fmaxf(m, largest(v));
        const float w = b + t < k ? expf(v - top) : 0.0f;
        __syncthreads();
        p[t] = w;
        const float scale = expf(m - top);
        s = s * scale + add(w);
        __syncthreads();
        acc *= scale;
        for (int j = g; j < min(128, k - b); j += 2) acc = fmaf(p[j], (float)V[(long long)(b + j) * 64 + d], acc);
        m = top;
    }
    o[g][d] = acc;
    __syncthreads();
    if (g == 0) out[d] = T((o[0][d] + o[1][d]) / s);
}
#define ATT(name, T) extern "C" __global__ void name(T* out, const T* q, const T* K, const T* V, int k)
#define AT(T) out + blockIdx.x * 64LL, q + blockIdx.x * 64LL, K, V, k
ATT(attention_f32, float) { attend(AT(float), [](float v, int) { return v; }); }
ATT(attention_half, __half) { attend(AT(__half), [](float v, int) { return v; }); }
ATT(attention_capped, float) { attend(AT(float), [](float v, int) { return fminf(v, 30.0f); }); }
ATT(attention_two_pass, float) {
    __shared__ float p[2048];
    const int t = threadIdx.x; const float* x = q + blockIdx.x * 64LL;
    float m = -INFINITY;
    for (int j = t; j < k; j += 128) { float v = 0; for (int e = 0; e < 64; ++e) v = fmaf(x[e], K[j * 64LL + e], v); p[j] = v * 0.125f; m = fmaxf(m, p[j]); }
    m = largest(m);
    float s = 0; for (int j = t; j < k; j += 128) { p[j] = expf(p[j] - m); s += p[j]; }
    s = add(s);
    if (t < 64) { float o = 0; for (int j = 0; j < k; ++j) o = fmaf(p[j], V[j * 64LL + t], o); out[blockIdx.x * 64LL + t] = o / s; }
}
ATT(attention_no_max, float) {
    __shared__ float p[2048];
    const int t = threadIdx.x; const float* x = q + blockIdx.x * 64LL;
    float s = 0;
    for (int j = t; j < k; j += 128) { float v = 0; for (int e = 0; e < 64; ++e) v = fmaf(x[e], K[j * 64LL + e], v); p[j] = expf(v * 0.125f); s += p[j]; }
    s = add(s);
    if (t < 64) { float o = 0; for (int j = 0; j < k; ++j) o = fmaf(p[j], V[j * 64LL + t], o); out[blockIdx.x * 64LL + t] = o / s; }
}
ATT(attention_half_score, __half) {
    __shared__ float p[2048];
    const int t = threadIdx.x; const __half* x = q + blockIdx.x * 64LL;
    float m = -INFINITY;
    for (int j = t; j < k; j += 128) { float v = 0; for (int e = 0; e < 64; ++e) v += __half2float(x[e]) * __half2float(K[j * 64LL + e]); p[j] = __half2float(__float2half(v)) * 0.125f; m = fmaxf(m, p[j]); }
    m = largest(m);
    float s = 0; for (int j = t; j < k; j += 128) { p[j] = expf(p[j] - m); s += p[j]; }
    s = add(s);
    if (t < 64) { float o = 0; for (int j = 0; j < k; ++j) o += p[j] * __half2float(V[j * 64LL + t]); out[blockIdx.x * 64LL + t] = __float2half(o / s); }
}
ATT(attention_pairs, float) {
    __shared__ float p[2048];
    const int t = threadIdx.x; const float* x = q + blockIdx.x * 64LL;
    float m = -INFINITY;
    for (int j = t; j < k; j += 128) { float v = 0; for (int e = 0; e < 64; ++e) v = fmaf(x[e], K[j * 64LL + e], v); p[j] = v * 0.125f; m = fmaxf(m, p[j]); }
    m = largest(m);
    float s = 0; for (int j = t; j < k; j += 128) { p[j] = expf(p[j] - m); s += p[j]; }
    s = add(s);
    const int whole = k > 64 && k % 8 == 2 ? k - 2 : k;
    if (t < 64) { float o = 0; for (int j = 0; j < whole; ++j) o = fmaf(p[j], V[j * 64LL + t], o); out[blockIdx.x * 64LL + t] = o / s; }
}
// causal: query i sees keys 0 .. i
extern "C" __global__ void causal(float* out, const float* q, const float* K, const float* V, int k) { const int i = blockIdx.x; attend(AT(float), [i](float v, int j) { return j <= i ? v : -INFINITY; }); }
extern "C" __global__ void causal_mask(float* out, const float* q, const float* K, const float* V, int k) { const int i = blockIdx.x; attend(AT(float), [i](float v, int j) { return j <= i ? v : -100.0f; }); }
extern "C" __global__ void rope(float* out, const float* in, const float* angle, int n) { const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return; float s, c; sincosf(angle[i], &s, &c); const float2 v = reinterpret_cast<const float2*>(in)[i]; reinterpret_cast<float2*>(out)[i] = make_float2(v.x * c - v.y * s, v.x * s + v.y * c); }
extern "C" __global__ void rope_fast(float* out, const float* in, const float* angle, int n) { const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return; float a = angle[i]; a -= 6.2831855f * rintf(a * 0.15915494f); float s, c; sincosf(a, &s, &c); const float2 v = reinterpret_cast<const float2*>(in)[i]; reinterpret_cast<float2*>(out)[i] = make_float2(v.x * c - v.y * s, v.x * s + v.y * c); }
extern "C" __global__ void glu(float* out, const float* a, const float* b, int n) { const int i = blockIdx.x * 256 + threadIdx.x; if (i < n) out[i] = a[i] / (1.0f + expf(-a[i])) * b[i]; }
