#include <cuComplex.h>
#define EACH const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
#define C1(name) extern "C" __global__ void name(float2* out, const float2* in, int n)
#define C2(name) extern "C" __global__ void name(float2* out, const float2* a, const float2* b, int n)
C2(multiply) { EACH const float2 x = a[i], y = b[i]; out[i] = make_float2(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x); }
C2(multiply_lib) { EACH out[i] = cuCmulf(a[i], b[i]); }
C2(multiply_conj) { EACH const float2 x = a[i], y = b[i]; out[i] = make_float2(x.x * y.x + x.y * y.y, x.y * y.x - x.x * y.y); }
C2(divide_lib) { EACH out[i] = cuCdivf(a[i], b[i]); }
C2(divide_smith) { EACH const float2 x = a[i], y = b[i]; if (fabsf(y.x) >= fabsf(y.y)) { const float r = y.y / y.x, d = y.x + y.y * r; out[i] = make_float2((x.x + x.y * r) / d, (x.y - x.x * r) / d); } else { const float r = y.x / y.y, d = y.x * r + y.y; out[i] = make_float2((x.x * r + x.y) / d, (x.y * r - x.x) / d); } }
C2(divide_square) { EACH const float2 x = a[i], y = b[i]; const float d = y.x * y.x + y.y * y.y; out[i] = make_float2((x.x * y.x + x.y * y.y) / d, (x.y * y.x - x.x * y.y) / d); }
C2(divide_real) { EACH const float2 x = a[i], y = b[i]; const float r = y.y / y.x, d = y.x + y.y * r; out[i] = make_float2((x.x + x.y * r) / d, (x.y - x.x * r) / d); }
extern "C" __global__ void modulus(float* out, const float2* in, int n) { EACH out[i] = hypotf(in[i].x, in[i].y); }
extern "C" __global__ void modulus_lib(float* out, const float2* in, int n) { EACH out[i] = cuCabsf(in[i]); }
extern "C" __global__ void modulus_square(float* out, const float2* in, int n) { EACH out[i] = sqrtf(in[i].x * in[i].x + in[i].y * in[i].y); }
extern "C" __global__ void phase(float* out, const float2* in, int n) { EACH out[i] = atan2f(in[i].y, in[i].x); }
extern "C" __global__ void phase_ratio(float* out, const float2* in, int n) { EACH const float x = in[i].x, y = in[i].y; const float p = atanf(y / x); out[i] = x >= 0.0f ? p : y > 0.0f ? p + 3.14159265f : p - 3.14159265f; }
C1(conjugate) { EACH out[i] = make_float2(in[i].x, -in[i].y); }
C1(exponential) { EACH float s, c; sincosf(in[i].y, &s, &c); const float e = expf(in[i].x); out[i] = make_float2(e * c, e * s); }
C1(root) { EACH const float x = in[i].x, y = in[i].y; const float r = hypotf(x, y); if (r == 0.0f) { out[i] = make_float2(0.0f, y); return; } const float t = sqrtf(0.5f * r + 0.5f * fabsf(x)); const float u = y / (2.0f * t); out[i] = x >= 0.0f ? make_float2(t, u) : make_float2(fabsf(u), copysignf(t, y)); }
C1(root_cancels) { EACH const float x = in[i].x, y = in[i].y; const float r = hypotf(x, y); out[i] = make_float2(sqrtf(fmaxf(0.5f * (r + x), 0.0f)), copysignf(sqrtf(fmaxf(0.5f * (r - x), 0.0f)), y)); }
C1(root_sign) { EACH const float x = in[i].x, y = in[i].y; const float r = hypotf(x, y); if (r == 0.0f) { out[i] = make_float2(0.0f, 0.0f); return; } const float t = sqrtf(0.5f * r + 0.5f * fabsf(x)); const float u = y / (2.0f * t); out[i] = x >= 0.0f ? make_float2(t, u) : make_float2(fabsf(u), y > 0.0f ? t : y < 0.0f ? -t : 0.0f); }
extern "C" __global__ void square_f64(double2* out, const double2* in, int n) { EACH const double x = in[i].x, y = in[i].y; out[i] = make_double2((x - y) * (x + y), 2.0 * x * y); }
extern "C" __global__ void square_direct(double2* out, const double2* in, int n) { EACH const double x = in[i].x, y = in[i].y; out[i] = make_double2(x * x - y * y, (x + x) * y); }
// rows of 64 numbers: discrete Fourier transform by one block of 64 threads
#define ROW __shared__ float2 s[64]; const int t = threadIdx.x; const float2* x = in + blockIdx.x * 64LL; float2* y = out + blockIdx.x * 64LL;
extern "C" __global__ void fourier_direct(float2* out, const float2* in, int n) { ROW s[t] = x[t]; __syncthreads(); float2 v = {0, 0}; for (int k = 0; k < 64; ++k) { float a, b; sincospif(-(float)(k * t % 64) / 32.0f, &a, &b); v.x += s[k].x * b - s[k].y * a; v.y += s[k].x * a + s[k].y * b; } y[t] = v; }
extern "C" __global__ void fourier_radix2(float2* out, const float2* in, int n) {
    ROW
    s[__brev((unsigned)t) >> 26] = x[t];
    __syncthreads();
    for (int half = 1; half < 64; half *= 2) {
        if (t < 32) { const int k = t % half, p = t / half * 2 * half + k; float a, b; sincospif(-(float)k / half, &a, &b); const float2 u = s[p], w = s[p + half], z = {w.x * b - w.y * a, w.x * a + w.y * b}; s[p] = make_float2(u.x + z.x, u.y + z.y); s[p + half] = make_float2(u.x - z.x, u.y - z.y); }
        __syncthreads();
    }
    y[t] = s[t];
}
extern "C" __global__ void fourier_skip(float2* out, const float2* in, int n) { ROW s[t] = x[t]; __syncthreads(); float2 v = {0, 0}; for (int k = 0; k < 64; ++k) { if (s[k].x == 0.0f) continue; float a, b; sincospif(-(float)(k * t % 64) / 32.0f, &a, &b); v.x += s[k].x * b - s[k].y * a; v.y += s[k].x * a + s[k].y * b; } y[t] = v; }
extern "C" __global__ void fourier_table(float2* out, const float2* in, int n) { ROW s[t] = x[t]; __syncthreads(); float a, b; sincospif(-(float)t / 32.0f, &a, &b); float2 w = {1, 0}, v = {0, 0}; for (int k = 0; k < 64; ++k) { v.x += s[k].x * w.x - s[k].y * w.y; v.y += s[k].x * w.y + s[k].y * w.x; w = make_float2(w.x * b - w.y * a, w.x * a + w.y * b); } y[t] = v; }
extern "C" __global__ void inner(float2* out, const float2* a, const float2* b, int n) { const int t = threadIdx.x; const float2* x = a + (long long)blockIdx.x * n; const float2* y = b + (long long)blockIdx.x * n; float2 v = {0, 0}; for (int c = t; c < n; c += 32) { v.x += x[c].x * y[c].x + x[c].y * y[c].y; v.y += x[c].x * y[c].y - x[c].y * y[c].x; } for (int d = 16; d; d >>= 1) { v.x += __shfl_xor_sync(0xffffffffu, v.x, d); v.y += __shfl_xor_sync(0xffffffffu, v.y, d); } if (t == 0) out[blockIdx.x] = v; }
