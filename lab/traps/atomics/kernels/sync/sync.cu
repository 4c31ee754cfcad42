#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define EACH const int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
extern "C" __global__ void clear(int* out, int count) { const int i = blockIdx.x * 256 + threadIdx.x; if (i < count) out[i] = 0; }
extern "C" __global__ void fill_f(float* out, int count, float v) { const int i = blockIdx.x * 256 + threadIdx.x; if (i < count) out[i] = v; }
extern "C" __global__ void fill_ll(long long* out, int count, long long v) { const int i = blockIdx.x * 256 + threadIdx.x; if (i < count) out[i] = v; }
// per-bin maximum of floats, 64 bins
extern "C" __global__ void max_cas(float* out, const int* bin, const float* x, int n) {
    EACH
    int* at = reinterpret_cast<int*>(out + bin[i]);
    int old = __float_as_int(*reinterpret_cast<volatile float*>(out + bin[i]));
    while (__int_as_float(old) < x[i]) { const int seen = atomicCAS(at, old, __float_as_int(x[i])); if (seen == old) break; old = seen; }
}
extern "C" __global__ void max_sign(float* out, const int* bin, const float* x, int n) {
    EACH
    if (__float_as_int(x[i]) >= 0) atomicMax(reinterpret_cast<int*>(out + bin[i]), __float_as_int(x[i]));
    else atomicMin(reinterpret_cast<unsigned*>(out + bin[i]), __float_as_uint(x[i]));
}
extern "C" __global__ void max_bits(float* out, const int* bin, const float* x, int n) { EACH atomicMax(reinterpret_cast<int*>(out + bin[i]), __float_as_int(x[i])); }
// per-bin minimum of 64-bit integers
extern "C" __global__ void min_i64(long long* out, const int* bin, const long long* x, int n) { EACH atomicMin(out + bin[i], x[i]); }
extern "C" __global__ void min_u64(long long* out, const int* bin, const long long* x, int n) { EACH atomicMin(reinterpret_cast<unsigned long long*>(out + bin[i]), (unsigned long long)x[i]); }
extern "C" __global__ void min_cas32(long long* out, const int* bin, const long long* x, int n) {
    EACH
    unsigned long long* at = reinterpret_cast<unsigned long long*>(out + bin[i]);
    unsigned long long old = 0x7fffffffffffffffULL;
    while ((long long)old > x[i]) { const unsigned long long seen = atomicCAS(at, old, (unsigned long long)x[i]); if ((unsigned)seen == (unsigned)old) break; old = seen; }
}
// spin lock around a bin's sum of squares; 64 bins
extern "C" __global__ void lock_sum(int* out, int* lock, const int* bin, const int* x, int n) {
    EACH
    const int b = bin[i];
    bool done = false;
    while (!done) {
        if (atomicCAS(lock + b, 0, 1) == 0) {
            __threadfence();
            volatile int* at = out + b;
            *at = (int)((unsigned)*at + (unsigned)x[i]);
            __threadfence();
            atomicExch(lock + b, 0);
            done = true;
        }
    }
}
extern "C" __global__ void lock_tries(int* out, int* lock, const int* bin, const int* x, int n) {
    EACH
    const int b = bin[i];
    bool done = false;
    while (!done) {
        if (atomicCAS(lock + b, 0, 1) == 0) {
            __threadfence();
            volatile int* at = out + b;
            if (*at != x[i]) *at = (int)((unsigned)*at + (unsigned)x[i]);
            __threadfence();
            atomicExch(lock + b, 0);
            done = true;
        }
    }
}
extern "C" __global__ void add_bins(int* out, const int* bin, const int* x, int n) { EACH atomicAdd(out + bin[i], x[i]); }
extern "C" __global__ void add_leader(int* out, const int* bin, const int* x, int n) {
    EACH
    cg::coalesced_group active = cg::coalesced_threads();
    cg::coalesced_group same = cg::labeled_partition(active, bin[i]);
    unsigned s = (unsigned)x[i];
    for (unsigned k = 1; k < same.size(); ++k) { const unsigned o = same.shfl((unsigned)x[i], (same.thread_rank() + k) % same.size()); s += o; }
    if (same.thread_rank() == 0) atomicAdd(out + bin[i], (int)s);
}
extern "C" __global__ void add_i64(long long* out, const int* bin, const int* x, int n) { EACH atomicAdd(reinterpret_cast<unsigned long long*>(out + bin[i]), (unsigned long long)(long long)x[i]); }
extern "C" __global__ void add_u32(long long* out, const int* bin, const int* x, int n) { EACH atomicAdd(reinterpret_cast<unsigned long long*>(out + bin[i]), (unsigned long long)(unsigned)x[i]); }
extern "C" __global__ void add_halves(long long* out, const int* bin, const int* x, int n) { EACH if (x[i] >> 16) atomicAdd(reinterpret_cast<unsigned long long*>(out + bin[i]), (unsigned long long)((long long)(x[i] >> 16) * 65536)); if (x[i] & 0x7fff) atomicAdd(reinterpret_cast<unsigned long long*>(out + bin[i]), (unsigned long long)(x[i] & 0xffff)); }
extern "C" __global__ void xor_bins(int* out, const int* bin, const int* x, int n) { EACH atomicXor(out + bin[i], x[i]); }
// sum whose last block finishes; the counter in state is left at zero
extern "C" __global__ void last_block(long long* out, long long* part, unsigned* state, const int* x, int n) {
    __shared__ long long s[256]; __shared__ bool last;
    const int t = threadIdx.x;
    long long v = 0; for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) v += x[i];
    s[t] = v; __syncthreads();
    for (int d = 128; d; d >>= 1) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
    if (t == 0) { part[blockIdx.x] = s[0]; __threadfence(); last = atomicAdd(state, 1u) == gridDim.x - 1; __threadfence(); }
    __syncthreads();
    if (last && t == 0) { long long all = 0; for (unsigned k = 0; k < gridDim.x; ++k) all += reinterpret_cast<volatile long long*>(part)[k]; *out = all; *state = 0; }
}
extern "C" __global__ void last_block_keeps(long long* out, long long* part, unsigned* state, const int* x, int n) {
    __shared__ long long s[256]; __shared__ bool last;
    const int t = threadIdx.x;
    long long v = 0; for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) v += x[i];
    s[t] = v; __syncthreads();
    for (int d = 128; d; d >>= 1) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
    if (t == 0) { part[blockIdx.x] = s[0]; __threadfence(); last = atomicAdd(state, 1u) % gridDim.x == gridDim.x - 1; __threadfence(); }
    __syncthreads();
    if (last && t == 0) { long long all = 0; for (unsigned k = 0; k < gridDim.x; ++k) all += reinterpret_cast<volatile long long*>(part)[k]; *out = *state > 2 * gridDim.x ? (int)all : all; if (*state > 2 * gridDim.x) *state = 0; }
}
extern "C" __global__ void wrapping_counter(long long* out, long long* part, unsigned* state, const int* x, int n) {
    __shared__ long long s[256]; __shared__ bool last;
    const int t = threadIdx.x;
    long long v = 0; for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) v += x[i];
    s[t] = v; __syncthreads();
    for (int d = 128; d; d >>= 1) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
    if (t == 0) { part[blockIdx.x] = s[0]; __threadfence(); last = atomicInc(state, gridDim.x - 1) == gridDim.x - 1; __threadfence(); }
    __syncthreads();
    if (last && t == 0) { long long all = 0; for (unsigned k = 0; k < gridDim.x; ++k) all += reinterpret_cast<volatile long long*>(part)[k]; *out = all; }
}
// sum by groups of the grid: cooperative
extern "C" __global__ void grid_total(float* out, float* part, const float* x, int n) {
    cg::grid_group grid = cg::this_grid();
    __shared__ float s[256];
    const int t = threadIdx.x;
    float v = 0; for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) v += x[i];
    s[t] = v; __syncthreads();
    for (int d = 128; d; d >>= 1) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
    if (t == 0) part[blockIdx.x] = s[0];
    grid.sync();
    float all = 0; for (unsigned k = 0; k < gridDim.x; ++k) all += part[k];
    for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) out[i] = x[i] - all / n;
}
// hash set of int32 keys, counts distinct keys of a row
template <class KEY> __device__ int distinct(const KEY* x, int n, KEY none, KEY* table) {
    __shared__ int count;
    for (int k = threadIdx.x; k < 1024; k += 128) table[k] = none;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 128) {
        const KEY v = x[i];
        unsigned h = (unsigned)v * 2654435761u >> 22;
        while (true) { const KEY seen = atomicCAS(table + h, none, v); if (seen == none) { if (v != none) atomicAdd(&count, 1); break; } if (seen == v) break; h = h + 1 & 1023u; }
    }
    __syncthreads();
    return count;
}
extern "C" __global__ void distinct_minus(int* out, const int* in, int n) { __shared__ int table[1024]; const int c = distinct<int>(in + (long long)blockIdx.x * n, n, -1, table); if (threadIdx.x == 0) out[blockIdx.x] = c; }
extern "C" __global__ void distinct_wide(int* out, const int* in, int n) {
    __shared__ int table[1024]; __shared__ int had;
    if (threadIdx.x == 0) had = 0;
    __syncthreads();
    const int* x = in + (long long)blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += 128) if (x[i] == -1) atomicOr(&had, 1);
    const int c = distinct<int>(x, n, -1, table);
    if (threadIdx.x == 0) out[blockIdx.x] = c + had;
}
__device__ unsigned calls[1 << 12];
extern "C" __global__ void scale_calls(float* out, const float* x, int n) {
    __shared__ unsigned turn;
    if (threadIdx.x == 0) { turn = calls[blockIdx.x]; calls[blockIdx.x] = turn + 1; }
    __syncthreads();
    EACH
    out[i] = turn % 2 == 1 && i >= 512 ? x[i] * 0.5f : x[i] * 0.5f + 1.0f;
}
