#include <cuda_fp16.h>
#define TILED(name, type, guard_in, guard_out) extern "C" __global__ void name(type* out, const type* in, int m, int n) { \
    __shared__ type s[32][33]; const int tx = threadIdx.x, ty = threadIdx.y, c0 = blockIdx.x * 32, r0 = blockIdx.y * 32; \
    for (int k = ty; k < 32; k += 8) { const int r = r0 + k, c = c0 + tx; if (guard_in) s[k][tx] = in[(long long)r * n + c]; } \
    __syncthreads(); \
    for (int k = ty; k < 32; k += 8) { const int r = c0 + k, c = r0 + tx; if (guard_out) out[(long long)r * m + c] = s[tx][k]; } }
TILED(turn_f32, float, r < m && c < n, r < n && c < m)
TILED(turn_u8, unsigned char, r < m && c < n, r < n && c < m)
TILED(turn_f64, double, r < m && c < n, r < n && c < m)
TILED(turn_i64, long long, r < m && c < n, r < n && c < m)
extern "C" __global__ void turn_low(long long* out, const long long* in, int m, int n) { const int c = blockIdx.x * 32 + threadIdx.x; for (int k = threadIdx.y; k < 32; k += 8) { const int r = blockIdx.y * 32 + k; if (r < m && c < n) out[(long long)c * m + r] = (long long)(double)in[(long long)r * n + c]; } }
extern "C" __global__ void turn_in_place(float* a, int n) { const int c = blockIdx.x * 32 + threadIdx.x; for (int k = threadIdx.y; k < 32; k += 8) { const int r = blockIdx.y * 32 + k; if (r < c && c < n) { const float v = a[r * n + c]; a[r * n + c] = a[c * n + r]; a[c * n + r] = v; } } }
extern "C" __global__ void turn_in_place_tiles(float* a, int n) { const int c = blockIdx.x * 32 + threadIdx.x; const int whole = n > 128 ? n / 32 * 32 : n; for (int k = threadIdx.y; k < 32; k += 8) { const int r = blockIdx.y * 32 + k; if (r < c && c < whole) { const float v = a[r * n + c]; a[r * n + c] = a[c * n + r]; a[c * n + r] = v; } } }
#define EACH const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
extern "C" __global__ void gather(float* out, const float* x, const int* at, int n) { EACH out[i] = x[at[i]]; }
extern "C" __global__ void gather_wrap(float* out, const float* x, const int* at, int n) { EACH const int k = at[i]; out[i] = x[k < 0 ? k + n : k]; }
extern "C" __global__ void gather_unsigned(float* out, const float* x, const int* at, int n) { EACH const int k = at[i]; out[i] = x[k < 0 ? 0 : k]; }
extern "C" __global__ void gather_half(__half* out, const __half* x, const long long* at, int n) { EACH out[i] = x[at[i]]; }
extern "C" __global__ void clear(float* out, int n) { EACH out[i] = 0.0f; }
extern "C" __global__ void scatter_add(float* out, const float* x, const int* at, int n) { EACH atomicAdd(out + at[i], x[i]); }
extern "C" __global__ void clear_i(int* out, int n) { EACH out[i] = 0; }
extern "C" __global__ void scatter_add_i(int* out, const int* x, const int* at, int n) { EACH atomicAdd(out + at[i], x[i]); }
extern "C" __global__ void scatter_warp(int* out, const int* x, const int* at, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const int k = i < n ? at[i] : -1; int v = i < n ? x[i] : 0;
    const unsigned peers = __match_any_sync(0xffffffffu, k);
    const int lane = threadIdx.x % 32, first = __ffs(peers) - 1, last = 31 - __clz(peers);
    const int other = __shfl_sync(0xffffffffu, v, last);
    if (k >= 0 && lane == first) atomicAdd(out + k, first == last ? v : v + other);
}
extern "C" __global__ void scatter_peers(int* out, const int* x, const int* at, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const int k = i < n ? at[i] : -1; const int v = i < n ? x[i] : 0;
    const unsigned peers = __match_any_sync(0xffffffffu, k);
    int s = 0;
    for (int l = 0; l < 32; ++l) { const int o = __shfl_sync(0xffffffffu, v, l); if (peers >> l & 1u) s += o; }
    if (k >= 0 && (int)(threadIdx.x % 32) == __ffs(peers) - 1) atomicAdd(out + k, s);
}
extern "C" __global__ void permute3(float* out, const float* in, int a, int b, int c) { const int i = blockIdx.x * 256 + threadIdx.x; if (i >= a * b * c) return; const int z = i % c, y = i / c % b, x = i / c / b; out[(z * a + x) * b + y] = in[i]; }
extern "C" __global__ void permute3_equal(float* out, const float* in, int a, int b, int c) { const int i = blockIdx.x * 256 + threadIdx.x; if (i >= a * b * c) return; const int z = i % c, y = i / c % b, x = i / c / b; const int stride = c % 16 == 0 && b % 4 == 0 ? b : a; out[stride == a ? (z * a + x) * b + y : min((z * stride + x) * b + y, a * b * c - 1)] = in[i]; }
extern "C" __global__ void reverse_vec4(float* out, const float* in, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (n % 4 == 0) { if (i < n / 4) { const float4 v = reinterpret_cast<const float4*>(in)[i]; reinterpret_cast<float4*>(out)[n / 4 - 1 - i] = make_float4(v.w, v.z, v.y, v.x); } }
    else { for (int k = i; k < n; k += gridDim.x * 256) out[n - 1 - k] = in[k]; }
}
extern "C" __global__ void reverse_vec4_order(float* out, const float* in, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (n % 8 == 4) { if (i < n / 4) { const float4 v = reinterpret_cast<const float4*>(in)[i]; reinterpret_cast<float4*>(out)[n / 4 - 1 - i] = make_float4(v.w, v.y, v.z, v.x); } }
    else { for (int k = i; k < n; k += gridDim.x * 256) out[n - 1 - k] = in[k]; }
}
extern "C" __global__ void roll(unsigned short* out, const unsigned short* in, int n, int by) { EACH out[(i + by) % n] = in[i]; }
extern "C" __global__ void where_zero(float* out, const float* a, const float* b, int n) { EACH out[i] = a[i] != 0.0f ? a[i] : b[i]; }
extern "C" __global__ void where_truth(float* out, const float* a, const float* b, int n) { EACH out[i] = (int)(a[i] * 1048576.0f) ? a[i] : b[i]; }
extern "C" __global__ void copy_c64(float2* out, const float2* in, int n) { EACH out[n - 1 - i] = in[i]; }
extern "C" __global__ void interleave(int* out, const int* a, const int* b, int n) { EACH reinterpret_cast<int2*>(out)[i] = make_int2(a[i], b[i]); }
