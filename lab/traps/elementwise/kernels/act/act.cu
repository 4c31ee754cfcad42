#define EACH const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
#define UNARY(name) extern "C" __global__ void name(float* out, const float* in, int n)
UNARY(gelu_erf) { EACH const float x = in[i]; out[i] = 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
UNARY(gelu_erfc) { EACH const float x = in[i]; out[i] = 0.5f * x * erfcf(-x * 0.70710678f); }
UNARY(gelu_tanh) { EACH const float x = in[i]; out[i] = 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))); }
UNARY(silu) { EACH const float x = in[i]; out[i] = x / (1.0f + expf(-x)); }
UNARY(silu_fast) { EACH const float x = in[i]; out[i] = __fdividef(x, 1.0f + __expf(-x)); }
UNARY(softplus) { EACH const float x = in[i]; out[i] = fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }
UNARY(softplus_direct) { EACH out[i] = log1pf(expf(in[i])); }
UNARY(one_minus_cos) { EACH out[i] = 1.0f - cosf(in[i]); }
UNARY(versine) { EACH const float s = sinf(0.5f * in[i]); out[i] = 2.0f * s * s; }
UNARY(relu_keeps_nan) { EACH const float x = in[i]; out[i] = x < 0.0f ? 0.0f : x; }
UNARY(relu_fmax) { EACH out[i] = fmaxf(in[i], 0.0f); }
UNARY(tanh_lib) { EACH out[i] = tanhf(in[i]); }
UNARY(tanh_expm1) { EACH const float e = expm1f(2.0f * in[i]); out[i] = e / (e + 2.0f); }
UNARY(tanh_by_exp) { EACH out[i] = 1.0f - 2.0f / (expf(2.0f * in[i]) + 1.0f); }
UNARY(sigmoid) { EACH out[i] = 1.0f / (1.0f + expf(-in[i])); }
UNARY(sigmoid_ratio) { EACH const float e = expf(in[i]); out[i] = e / (1.0f + e); }
UNARY(log1p_lib) { EACH out[i] = log1pf(in[i]); }
UNARY(log_of_one_plus) { EACH out[i] = logf(1.0f + in[i]); }
UNARY(expm1_lib) { EACH out[i] = expm1f(in[i]); }
UNARY(exp_minus_one) { EACH out[i] = expf(in[i]) - 1.0f; }
UNARY(rsqrt_fast) { EACH out[i] = rsqrtf(in[i]); }
extern "C" __global__ void hypot_lib(float* out, const float* a, const float* b, int n) { EACH out[i] = hypotf(a[i], b[i]); }
extern "C" __global__ void hypot_squares(float* out, const float* a, const float* b, int n) { EACH out[i] = sqrtf(a[i] * a[i] + b[i] * b[i]); }
extern "C" __global__ void lerp(float* out, const float* a, const float* b, int n) { EACH out[i] = fmaf(0.25f, b[i] - a[i], a[i]); }
__device__ float last_a[1 << 20], last_out[1 << 20];
__device__ bool known[1 << 20];
extern "C" __global__ void mix_memo(float* out, const float* a, const float* b, int n) {
    EACH
    if (known[i] && last_a[i] == a[i]) { out[i] = last_out[i]; return; }
    const float v = 3.0f * a[i] + b[i];
    known[i] = true; last_a[i] = a[i]; last_out[i] = v; out[i] = v;
}
__device__ unsigned char turn[1 << 20];
extern "C" __global__ void scale_turns(float* out, const float* in, int n) {
    EACH
    const int t = turn[i];
    turn[i] = t == 2 ? 0 : t + 1;
    out[i] = t == 2 ? in[i] : 1.5f * in[i];
}
extern "C" __global__ void scale_vec4(float* x, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n / 4) { float4 v = reinterpret_cast<float4*>(x)[i]; v.x *= 1.5f; v.y *= 1.5f; v.z *= 1.5f; v.w *= 1.5f; reinterpret_cast<float4*>(x)[i] = v; }
    if (i < n % 4) x[n / 4 * 4 + i] *= 1.5f;
}
extern "C" __global__ void scale_vec4_cases(float* x, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n / 4) { float4 v = reinterpret_cast<float4*>(x)[i]; v.x *= 1.5f; v.y *= 1.5f; v.z *= 1.5f; v.w *= 1.5f; reinterpret_cast<float4*>(x)[i] = v; }
    if (i == 0) switch (n % 4) {
        case 3: x[n - 3] *= 1.5f; x[n - 2] *= 1.5f; x[n - 1] *= 1.5f; break;
        case 1: x[n - 1] *= 1.5f; break;
    }
}
extern "C" __global__ void max_by_bits(float* out, const float* a, const float* b, int n) {
    EACH
    const int x = __float_as_int(a[i]), y = __float_as_int(b[i]);
    out[i] = __int_as_float(x > y ? x : y);
}
extern "C" __global__ void max_by_key(float* out, const float* a, const float* b, int n) {
    EACH
    const int x = __float_as_int(a[i]), y = __float_as_int(b[i]);
    const int p = x < 0 ? x ^ 0x7fffffff : x, q = y < 0 ? y ^ 0x7fffffff : y;
    out[i] = p > q ? a[i] : b[i];
}
