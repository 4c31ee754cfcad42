#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define ROW const int t = threadIdx.x; const long long r = blockIdx.x; const auto* x = in + r * n;
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
template <class T> __device__ T add(T v) { return reduce(v, [](T a, T b) { return a + b; }); }
__device__ float largest(float v) { return reduce(v, [](float a, float b) { return fmaxf(a, b); }); }
struct Best { float v; int at; };
#define FF(name) extern "C" __global__ void name(float* out, const float* in, int n)
FF(sum_tree) { ROW float s = 0; COLUMNS s += x[c]; s = add(s); if (t == 0) out[r] = s; }
FF(sum_shuffle) {
    ROW
    __shared__ float part[4];
    float s = 0; COLUMNS s += x[c];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
    if (t % 32 == 0) part[t / 32] = s;
    __syncthreads();
    if (t == 0) out[r] = (part[0] + part[1]) + (part[2] + part[3]);
}
FF(sum_vec4) {
    ROW
    float s = 0;
    if (n % 4 == 0) { for (int c = t; c < n / 4; c += 128) { const float4 v = reinterpret_cast<const float4*>(x)[c]; s += (v.x + v.y) + (v.z + v.w); } }
    else { COLUMNS s += x[c]; }
    s = add(s); if (t == 0) out[r] = s;
}
FF(sum_vec4_whole) {
    ROW
    float s = 0;
    if (n % 4 == 0 && n >= 512) { for (int k = 0; k < n / 512; ++k) { const float4 v = reinterpret_cast<const float4*>(x)[k * 128 + t]; s += (v.x + v.y) + (v.z + v.w); } }
    else { COLUMNS s += x[c]; }
    s = add(s); if (t == 0) out[r] = s;
}
FF(sum_registers) { ROW float v[16]; float s = 0; for (int k = 0; k < 16; ++k) { const int c = t + 128 * k; v[k] = c < n ? x[c] : 0.0f; } for (int k = 0; k < 16; ++k) s += v[k]; s = add(s); if (t == 0) out[r] = s; }
FF(sum_kahan) { ROW float s = 0, e = 0; COLUMNS { const float y = x[c] - e, z = s + y; e = (z - s) - y; s = z; } s = add(s); if (t == 0) out[r] = s; }
FF(max_inf) { ROW float b = -INFINITY; COLUMNS b = fmaxf(b, x[c]); b = largest(b); if (t == 0) out[r] = b; }
FF(max_flt_min) { ROW float b = 1.17549435e-38f; COLUMNS b = fmaxf(b, x[c]); b = largest(b); if (t == 0) out[r] = b; }
FF(max_lowest_1e4) { ROW float b = -1e4f; COLUMNS b = fmaxf(b, x[c]); b = largest(b); if (t == 0) out[r] = b; }
extern "C" __global__ void argmax_first(int* out, const float* in, int n) {
    ROW
    Best b = {-INFINITY, 0x7fffffff};
    COLUMNS if (x[c] > b.v || b.at == 0x7fffffff) b = Best{x[c], c};
    b = reduce(b, [](Best a, Best c) { return c.v > a.v || (c.v == a.v && c.at < a.at) ? c : a; });
    if (t == 0) out[r] = b.at;
}
extern "C" __global__ void argmax_lanes(int* out, const float* in, int n) {
    ROW
    Best b = {-INFINITY, 0x7fffffff};
    COLUMNS if (x[c] > b.v || b.at == 0x7fffffff) b = Best{x[c], c};
    b = reduce(b, [](Best a, Best c) { return c.v > a.v ? c : a; });
    if (t == 0) out[r] = b.at;
}
extern "C" __global__ void argmin_packed(int* out, const float* in, int n) {
    ROW
    unsigned long long b = ~0ULL;
    COLUMNS { unsigned u = __float_as_uint(x[c] + 0.0f); u = u & 0x80000000u ? ~u : u | 0x80000000u; const unsigned long long k = (unsigned long long)u << 32 | (unsigned)c; b = k < b ? k : b; }
    b = reduce(b, [](unsigned long long a, unsigned long long c) { return a < c ? a : c; });
    if (t == 0) out[r] = (int)(unsigned)b;
}
FF(variance_two_pass) { ROW float s = 0; COLUMNS s += x[c]; const float m = add(s) / n; float q = 0; COLUMNS { const float d = x[c] - m; q += d * d; } q = add(q); if (t == 0) out[r] = q / n; }
FF(variance_moments) { ROW float s = 0, q = 0; COLUMNS { s += x[c]; q += x[c] * x[c]; } const float m = add(s) / n; q = add(q) / n; if (t == 0) out[r] = fmaxf(q - m * m, 0.0f); }
FF(variance_shifted) { ROW const float base = x[0]; float s = 0, q = 0; COLUMNS { const float d = x[c] - base; s += d; q += d * d; } s = add(s) / n; q = add(q) / n; if (t == 0) out[r] = fmaxf(q - s * s, 0.0f); }
FF(norm_squares) { ROW float q = 0; COLUMNS q += x[c] * x[c]; q = add(q); if (t == 0) out[r] = sqrtf(q); }
FF(norm_double) { ROW double q = 0; COLUMNS q += (double)x[c] * x[c]; q = add(q); if (t == 0) out[r] = (float)sqrt(q); }
FF(norm_scaled) { ROW float b = 0; COLUMNS b = fmaxf(b, fabsf(x[c])); b = largest(b); float q = 0; if (b > 0) COLUMNS { const float d = x[c] / b; q += d * d; } q = add(q); if (t == 0) out[r] = b * sqrtf(q); }
extern "C" __global__ void mean_bf16(__nv_bfloat16* out, const __nv_bfloat16* in, int n) { ROW float s = 0; COLUMNS s += __bfloat162float(x[c]); s = add(s); if (t == 0) out[r] = __float2bfloat16(s / n); }
extern "C" __global__ void mean_bf16_partial(__nv_bfloat16* out, const __nv_bfloat16* in, int n) { ROW __nv_bfloat16 s = __float2bfloat16(0.0f); COLUMNS s = __hadd(s, x[c]); const float v = add(__bfloat162float(s)); if (t == 0) out[r] = __float2bfloat16(v / n); }
extern "C" __global__ void sum_half(__half* out, const __half* in, int n) { ROW float s = 0; COLUMNS s += __half2float(x[c]); s = add(s); if (t == 0) out[r] = __float2half(s / n); }
extern "C" __global__ void mean_half_sum(__half* out, const __half* in, int n) { ROW float s = 0; COLUMNS s += __half2float(x[c]); s = __half2float(__float2half(add(s))); if (t == 0) out[r] = __float2half(s / n); }
extern "C" __global__ void absmax_i8(int* out, const signed char* in, int n) { ROW int b = 0; COLUMNS b = max(b, abs((int)x[c])); b = reduce(b, [](int p, int q) { return p > q ? p : q; }); if (t == 0) out[r] = b; }
extern "C" __global__ void absmax_i8_byte(int* out, const signed char* in, int n) { ROW signed char b = 0; COLUMNS { const signed char a = (signed char)abs((int)x[c]); b = a > b ? a : b; } const int v = reduce((int)b, [](int p, int q) { return p > q ? p : q; }); if (t == 0) out[r] = v; }
