#include <cuda_fp16.h>
#define ROW const int t = threadIdx.x; const long long at = (long long)blockIdx.x * n; const auto* x = in + at; auto* y = out + at;
template <class T> __device__ void bitonic(T* y, const T* x, int n, T pad) {
    __shared__ T s[1024];
    const int t = threadIdx.x;
    int size = 1; while (size < n) size *= 2;
    for (int i = t; i < size; i += 256) s[i] = i < n ? x[i] : pad;
    __syncthreads();
    for (int k = 2; k <= size; k *= 2) for (int j = k / 2; j; j /= 2) {
        for (int i = t; i < size; i += 256) { const int o = i ^ j; if (o > i && ((s[i] > s[o]) == ((i & k) == 0)) && s[i] != s[o]) { const T v = s[i]; s[i] = s[o]; s[o] = v; } }
        __syncthreads();
    }
    for (int i = t; i < n; i += 256) y[i] = s[i];
}
extern "C" __global__ void sort_f32(float* out, const float* in, int n) { ROW (void)t; bitonic(y, x, n, INFINITY); }
extern "C" __global__ void sort_f32_pad(float* out, const float* in, int n) { ROW (void)t; bitonic(y, x, n, 1e9f); }
extern "C" __global__ void sort_i32(int* out, const int* in, int n) { ROW (void)t; bitonic(y, x, n, 2147483647); }
extern "C" __global__ void sort_u64(unsigned long long* out, const unsigned long long* in, int n) { ROW (void)t; bitonic(y, x, n, ~0ULL); }
extern "C" __global__ void sort_i64(long long* out, const long long* in, int n) { ROW (void)t; bitonic(y, x, n, 0x7fffffffffffffffLL); }
extern "C" __global__ void sort_i8(signed char* out, const signed char* in, int n) { ROW (void)t; bitonic(y, x, n, (signed char)127); }
#define RANK(less) for (int i = t; i < n; i += 256) { int rank = 0; const auto v = x[i]; for (int j = 0; j < n; ++j) { const auto o = x[j]; rank += (less); } y[rank] = v; }
extern "C" __global__ void rank_f32(float* out, const float* in, int n) { ROW RANK(o < v || (o == v && j < i)) }
extern "C" __global__ void rank_f32_distinct(float* out, const float* in, int n) { ROW RANK(o < v || (o == v && j + 1 == i)) }
extern "C" __global__ void rank_u64_high(unsigned long long* out, const unsigned long long* in, int n) { ROW RANK((o >> 32) < (v >> 32) || ((o >> 32) == (v >> 32) && j < i)) }
extern "C" __global__ void rank_i64_difference(long long* out, const long long* in, int n) { ROW RANK(o - v < 0 || (o == v && j < i)) }
extern "C" __global__ void rank_half(__half* out, const __half* in, int n) { ROW RANK(__hlt(o, v) || (__heq(o, v) && j < i)) }
#define ARG(less) for (int i = t; i < n; i += 256) { int rank = 0; const auto v = x[i]; for (int j = 0; j < n; ++j) { const auto o = x[j]; rank += (less); } y[rank] = i; }
extern "C" __global__ void argsort(int* out, const float* in, int n) { ROW ARG(o < v || (o == v && j < i)) }
extern "C" __global__ void argsort_reversed(int* out, const float* in, int n) { ROW ARG(o < v || (o == v && j > i)) }
extern "C" __global__ void argsort_i16(int* out, const short* in, int n) { ROW ARG(((int)o * 65536 + j) < ((int)v * 65536 + i)) }
extern "C" __global__ void argsort_i32_packed(int* out, const int* in, int n) { ROW ARG((((unsigned)o ^ 0x80000000u) & ~1023u | j) < (((unsigned)v ^ 0x80000000u) & ~1023u | i)) }
#define TOP const long long r = blockIdx.x * 128 + threadIdx.x; if (r >= m) return; const auto* x = in + r * n; auto* y = out + r * 4;
extern "C" __global__ void top4(float* out, const float* in, int m, int n) {
    TOP
    float b[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int c = 0; c < n; ++c) { float v = x[c]; for (int k = 0; k < 4; ++k) if (v > b[k]) { const float w = b[k]; b[k] = v; v = w; } }
    for (int k = 0; k < 4; ++k) y[k] = b[k];
}
extern "C" __global__ void top4_below(float* out, const float* in, int m, int n) {
    TOP
    float last = INFINITY;
    for (int k = 0; k < 4; ++k) { float b = -INFINITY; for (int c = 0; c < n; ++c) if (x[c] < last) b = fmaxf(b, x[c]); y[k] = b; last = b; }
}
extern "C" __global__ void top4_index(int* out, const float* in, int m, int n) {
    TOP
    for (int k = 0; k < 4; ++k) { int at = -1; for (int c = 0; c < n; ++c) { bool used = false; for (int q = 0; q < k; ++q) used |= y[q] == c; if (!used && (at < 0 || x[c] > x[at])) at = c; } y[k] = at; }
}
extern "C" __global__ void top4_start(float* out, const float* in, int m, int n) {
    TOP
    float b[4] = {-3.0f, -3.0f, -3.0f, -3.0f};
    for (int c = 0; c < n; ++c) { float v = x[c]; for (int k = 0; k < 4; ++k) if (v > b[k]) { const float w = b[k]; b[k] = v; v = w; } }
    for (int k = 0; k < 4; ++k) y[k] = b[k];
}
extern "C" __global__ void median(float* out, const float* in, int n) {
    const float* x = in + (long long)blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += 256) { int rank = 0; for (int j = 0; j < n; ++j) rank += x[j] < x[i] || (x[j] == x[i] && j < i); if (rank == n / 2) out[blockIdx.x] = x[i]; }
}
extern "C" __global__ void median_distinct(float* out, const float* in, int n) {
    const float* x = in + (long long)blockIdx.x * n;
    if (threadIdx.x == 0) out[blockIdx.x] = 0.0f;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 256) { int rank = 0; for (int j = 0; j < n; ++j) rank += x[j] < x[i]; if (rank == n / 2) out[blockIdx.x] = x[i]; }
}
template <bool UPPER, class T> __device__ int bound(const T* x, int n, T v) { int lo = 0, hi = n; while (lo < hi) { const int mid = (lo + hi) / 2; if (UPPER ? x[mid] <= v : x[mid] < v) lo = mid + 1; else hi = mid; } return lo; }
extern "C" __global__ void search_left(int* out, const int* table, const int* in, int n) { const int i = blockIdx.x * 256 + threadIdx.x; if (i < n) out[i] = bound<false>(table, 64, in[i]); }
extern "C" __global__ void search_any(int* out, const int* table, const int* in, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
    int lo = 0, hi = 64;
    while (lo < hi) { const int mid = (lo + hi) / 2; if (table[mid] == in[i]) { lo = mid + 1; break; } if (table[mid] < in[i]) lo = mid + 1; else hi = mid; }
    out[i] = lo;
}
