#define EACH const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
typedef unsigned char u8;
extern "C" __global__ void above(bool* out, const float* in, int n) { EACH out[i] = in[i] > 0.25f; }
extern "C" __global__ void above_byte(u8* out, const float* in, int n) { EACH out[i] = in[i] > 0.25f ? 255 : 0; }
extern "C" __global__ void above_bits(u8* out, const float* in, int n) { EACH out[i] = (u8)((in[i] > 0.25f) << 1 | 0); }
extern "C" __global__ void nonzero(bool* out, const int* in, int n) { EACH out[i] = in[i] != 0; }
extern "C" __global__ void nonzero_low(bool* out, const int* in, int n) { EACH out[i] = (u8)in[i] || (unsigned short)(in[i] >> 8); }
extern "C" __global__ void nonzero_store(u8* out, const u8* in, int n) { EACH out[i] = in[i]; }
extern "C" __global__ void both(bool* out, const bool* a, const bool* b, int n) { EACH out[i] = a[i] && b[i]; }
extern "C" __global__ void differ_words(bool* out, const bool* a, const bool* b, int n) { const int i = blockIdx.x * 256 + threadIdx.x; if (i < n / 4) reinterpret_cast<unsigned*>(out)[i] = reinterpret_cast<const unsigned*>(a)[i] ^ reinterpret_cast<const unsigned*>(b)[i]; if (i < n % 4) out[n / 4 * 4 + i] = a[n / 4 * 4 + i] != b[n / 4 * 4 + i]; }
extern "C" __global__ void invert(bool* out, const bool* in, int n) { EACH out[i] = !in[i]; }
extern "C" __global__ void invert_bits(u8* out, const u8* in, int n) { EACH out[i] = (u8)~in[i]; }
extern "C" __global__ void is_nan(bool* out, const float* in, int n) { EACH out[i] = in[i] != in[i]; }
extern "C" __global__ void equal_f32(bool* out, const float* a, const float* b, int n) { EACH out[i] = a[i] == b[i]; }
extern "C" __global__ void equal_bits(bool* out, const float* a, const float* b, int n) { EACH out[i] = __float_as_int(a[i]) == __float_as_int(b[i]); }
extern "C" __global__ void less_equal(bool* out, const float* a, const float* b, int n) { EACH out[i] = a[i] <= b[i]; }
extern "C" __global__ void less_strict(bool* out, const float* a, const float* b, int n) { EACH out[i] = a[i] < b[i]; }
extern "C" __global__ void less_difference(bool* out, const int* a, const int* b, int n) { EACH out[i] = (int)((unsigned)a[i] - (unsigned)b[i]) < 0; }
extern "C" __global__ void any_rows(bool* out, const bool* in, int m, int n) { const int r = blockIdx.x; int f = 0; for (int c = threadIdx.x; c < n; c += 128) f |= in[(long long)r * n + c]; f = __syncthreads_or(f); if (threadIdx.x == 0) out[r] = f != 0; }
extern "C" __global__ void all_rows(bool* out, const bool* in, int m, int n) { const int r = blockIdx.x; int f = 1; for (int c = threadIdx.x; c < n; c += 128) f &= in[(long long)r * n + c]; f = __syncthreads_and(f); if (threadIdx.x == 0) out[r] = f != 0; }
extern "C" __global__ void all_lanes(bool* out, const int* in, int m, int n) { const int r = blockIdx.x; bool f = true; for (int c = threadIdx.x; c < n; c += 128) f = in[(long long)r * n + c] != 0; f = __syncthreads_and(f); if (threadIdx.x == 0) out[r] = f; }
extern "C" __global__ void all_rows_i32(bool* out, const int* in, int m, int n) { const int r = blockIdx.x; bool f = true; for (int c = threadIdx.x; c < n; c += 128) f = f && in[(long long)r * n + c] != 0; f = __syncthreads_and(f); if (threadIdx.x == 0) out[r] = f; }
extern "C" __global__ void pack_bits(u8* out, const bool* in, int n) { const int i = blockIdx.x * 256 + threadIdx.x; if (i >= (n + 7) / 8) return; unsigned v = 0; for (int k = 0; k < 8 && 8 * i + k < n; ++k) v |= (unsigned)in[8 * i + k] << (7 - k); out[i] = (u8)v; }
extern "C" __global__ void pack_ballot(unsigned* out, const int* in, int n) { const int i = blockIdx.x * 256 + threadIdx.x; const unsigned v = __ballot_sync(0xffffffffu, i < n && in[i] > 0); if (i < n && i % 32 == 0) out[i / 32] = v; }
extern "C" __global__ void pack_sign(unsigned* out, const int* in, int n) { const int i = blockIdx.x * 256 + threadIdx.x; const unsigned v = __ballot_sync(0xffffffffu, i < n && in[i] >= 0); if (i < n && i % 32 == 0) out[i / 32] = v; }
template <class T, class F> __device__ void compact(T* y, int* count, const T* x, int n, F keep) {
    __shared__ int part[8];
    const int t = threadIdx.x, lane = t % 32, w = t / 32;
    int done = 0;
    for (int b = 0; b < n; b += 256) {
        const T v = b + t < n ? x[b + t] : T(0);
        const bool f = b + t < n && keep(v);
        const unsigned m = __ballot_sync(0xffffffffu, f);
        if (lane == 0) part[w] = __popc(m);
        __syncthreads();
        int at = done, all = 0;
        for (int k = 0; k < 8; ++k) { if (k < w) at += part[k]; all += part[k]; }
        if (f) y[at + __popc(m & (1u << lane) - 1u)] = v;
        done += all;
        __syncthreads();
    }
    for (int c = done + t; c < n; c += 256) y[c] = T(0);
    if (t == 0) *count = done;
}
#define ROWS const long long at = (long long)blockIdx.x * n;
extern "C" __global__ void keep_positive(float* out, int* count, const float* in, int n) { ROWS compact(out + at, count + blockIdx.x, in + at, n, [](float v) { return v > 0.0f; }); }
extern "C" __global__ void keep_int(float* out, int* count, const float* in, int n) { ROWS compact(out + at, count + blockIdx.x, in + at, n, [](float v) { return v > 1e-6f; }); }
extern "C" __global__ void keep_odd(long long* out, int* count, const long long* in, int n) { ROWS compact(out + at, count + blockIdx.x, in + at, n, [](long long v) { return (v & 1) != 0; }); }
extern "C" __global__ void keep_odd_mod(long long* out, int* count, const long long* in, int n) { ROWS compact(out + at, count + blockIdx.x, in + at, n, [](long long v) { return v % 2 == 1; }); }
extern "C" __global__ void keep_large(long long* out, int* count, const long long* in, int n) { ROWS compact(out + at, count + blockIdx.x, in + at, n, [](long long v) { return (int)(v >> 32) > 0; }); }
extern "C" __global__ void unique_runs(int* out, int* count, const int* in, int n) { if (threadIdx.x) return; ROWS const int* x = in + at; int c = 0; for (int i = 0; i < n; ++i) if (i == 0 || x[i] != x[i - 1]) out[at + c++] = x[i]; count[blockIdx.x] = c; for (; c < n; ++c) out[at + c] = 0; }
extern "C" __global__ void unique_runs_zero(int* out, int* count, const int* in, int n) { if (threadIdx.x) return; ROWS const int* x = in + at; int c = 0, last = 0; for (int i = 0; i < n; ++i) { if (x[i] != last) out[at + c++] = x[i]; last = x[i]; } count[blockIdx.x] = c; for (; c < n; ++c) out[at + c] = 0; }
