#define STRIDE for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
extern "C" __global__ void clear(unsigned* out, int bins) { const int i = blockIdx.x * 256 + threadIdx.x; if (i < bins) out[i] = 0; }
extern "C" __global__ void clear_f(float* out, int bins) { const int i = blockIdx.x * 256 + threadIdx.x; if (i < bins) out[i] = 0.0f; }
extern "C" __global__ void global_u8(unsigned* out, const unsigned char* in, int n) { STRIDE atomicAdd(out + in[i], 1u); }
#define SHARED __shared__ unsigned h[256]; h[threadIdx.x] = 0; __syncthreads();
#define FLUSH __syncthreads(); if (h[threadIdx.x]) atomicAdd(out + threadIdx.x, h[threadIdx.x]);
extern "C" __global__ void shared_u8(unsigned* out, const unsigned char* in, int n) { SHARED STRIDE atomicAdd(h + in[i], 1u); FLUSH }
extern "C" __global__ void packed_bytes(unsigned* out, const unsigned char* in, int n) {
    __shared__ unsigned h[64];
    if (threadIdx.x < 64) h[threadIdx.x] = 0;
    __syncthreads();
    STRIDE atomicAdd(h + in[i] / 4, 1u << 8 * (in[i] % 4));
    __syncthreads();
    const unsigned c = h[threadIdx.x / 4] >> 8 * (threadIdx.x % 4) & 255u;
    if (c) atomicAdd(out + threadIdx.x, c);
}
extern "C" __global__ void packed_halves(unsigned* out, const unsigned char* in, int n) {
    __shared__ unsigned h[128];
    if (threadIdx.x < 128) h[threadIdx.x] = 0;
    __syncthreads();
    STRIDE atomicAdd(h + in[i] / 2, 1u << 16 * (in[i] % 2));
    __syncthreads();
    const unsigned c = h[threadIdx.x / 2] >> 16 * (threadIdx.x % 2) & 65535u;
    if (c) atomicAdd(out + threadIdx.x, c);
}
extern "C" __global__ void warp_match(unsigned* out, const unsigned char* in, int n) {
    SHARED
    for (int b = blockIdx.x * 256; b < n; b += gridDim.x * 256) {
        const int i = b + (int)threadIdx.x;
        const int v = i < n ? in[i] : 256;
        const unsigned peers = __match_any_sync(0xffffffffu, v);
        if (v < 256 && (int)(threadIdx.x % 32) == __ffs(peers) - 1) atomicAdd(h + v, (unsigned)__popc(peers));
    }
    FLUSH
}
extern "C" __global__ void warp_distinct(unsigned* out, const unsigned char* in, int n) {
    SHARED
    for (int b = blockIdx.x * 256; b < n; b += gridDim.x * 256) {
        const int i = b + (int)threadIdx.x;
        const int v = i < n ? in[i] : 256;
        const unsigned peers = __match_any_sync(0xffffffffu, v);
        const bool all = peers == 0xffffffffu;
        if (v < 256 && (all ? threadIdx.x % 32 == 0 : true)) atomicAdd(h + v, all ? 31u : 1u);
    }
    FLUSH
}
extern "C" __global__ void sentinel_u16(unsigned* out, const unsigned short* in, int n) {
    SHARED
    for (int b = blockIdx.x * 256; b < n; b += gridDim.x * 256) {
        const int i = b + (int)threadIdx.x;
        const unsigned short v = i < n ? in[i] : 0xffff;
        if (v != 0xffff) atomicAdd(h + (v >> 8), 1u);
    }
    FLUSH
}
extern "C" __global__ void high_u16(unsigned* out, const unsigned short* in, int n) { SHARED STRIDE atomicAdd(h + (in[i] >> 8), 1u); FLUSH }
extern "C" __global__ void unit_bins(unsigned* out, const float* in, int n) { SHARED STRIDE { const float x = in[i]; if (x >= 0.0f && x <= 1.0f) atomicAdd(h + min((int)(x * 256.0f), 255), 1u); } FLUSH }
extern "C" __global__ void unit_bins_open(unsigned* out, const float* in, int n) { SHARED STRIDE { const float x = in[i]; if (x >= 0.0f && x < 1.0f) atomicAdd(h + (int)(x * 256.0f), 1u); } FLUSH }
extern "C" __global__ void unit_bins_trunc(unsigned* out, const float* in, int n) { SHARED STRIDE { const int b = (int)(in[i] * 256.0f); if (b >= 0 && b <= 256) atomicAdd(h + min(b, 255), 1u); } FLUSH }
extern "C" __global__ void modulo_i64(unsigned* out, const long long* in, int n) { SHARED STRIDE { long long k = in[i] % 200; if (k < 0) k += 200; atomicAdd(h + k, 1u); } FLUSH }
extern "C" __global__ void modulo_i64_abs(unsigned* out, const long long* in, int n) { SHARED STRIDE { long long k = llabs(in[i]) % 200; if (in[i] < 0 && k) k = 200 - k; if (k >= 0) atomicAdd(h + k, 1u); } FLUSH }
extern "C" __global__ void rounds16(unsigned* out, const unsigned char* in, int n) { SHARED int i = blockIdx.x * 256 + threadIdx.x; for (int k = 0; k < 2; ++k, i += gridDim.x * 256) if (i < n) atomicAdd(h + in[i], 1u); FLUSH }
extern "C" __global__ void weighted(float* out, const unsigned char* key, const float* w, int n) { STRIDE atomicAdd(out + key[i], w[i]); }
extern "C" __global__ void clear_ll(long long* sum) { sum[threadIdx.x] = 0; }
extern "C" __global__ void weighted_fixed(long long* sum, const unsigned char* key, const float* w, int n) { STRIDE atomicAdd((unsigned long long*)(sum + key[i]), (unsigned long long)llrintf(w[i] * 16777216.0f)); }
extern "C" __global__ void from_fixed(float* out, const long long* sum) { out[threadIdx.x] = (float)((double)sum[threadIdx.x] / 16777216.0); }
extern "C" __global__ void by_runs(unsigned* out, const int* in, int n) {
    const int first = (blockIdx.x * 256 + threadIdx.x) * 8;
    if (first >= n) return;
    int v = in[first]; unsigned c = 0;
    for (int i = first; i < min(first + 8, n); ++i) { if (in[i] != v) { atomicAdd(out + v, c); v = in[i]; c = 0; } ++c; }
    atomicAdd(out + v, c);
}
extern "C" __global__ void runs_short(unsigned* out, const int* in, int n) {
    const int first = (blockIdx.x * 256 + threadIdx.x) * 8;
    if (first >= n) return;
    int v = in[first]; unsigned c = 0;
    for (int i = first; i < min(first + 8, n); ++i) { if (in[i] != v) { atomicAdd(out + v, c); v = in[i]; c = 0; } c = c + 1 & 7u; }
    atomicAdd(out + v, c);
}
