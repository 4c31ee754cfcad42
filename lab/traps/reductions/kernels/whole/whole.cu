#define STRIDE for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL)
template <class T> __device__ T add(T v) {
    __shared__ T part[256];
    const int t = threadIdx.x;
    part[t] = v;
    __syncthreads();
    for (int d = 128; d; d >>= 1) { if (t < d) part[t] += part[t + d]; __syncthreads(); }
    return part[0];
}
extern "C" __global__ void clear64(unsigned long long* out) { *out = 0; }
extern "C" __global__ void sum_i32(unsigned long long* out, const int* in, int n) { long long s = 0; STRIDE s += in[i]; s = add(s); if (threadIdx.x == 0) atomicAdd(out, (unsigned long long)s); }
extern "C" __global__ void sum_i32_thread(unsigned long long* out, const int* in, int n) { int s = 0; STRIDE s += in[i]; const long long v = add((long long)s); if (threadIdx.x == 0) atomicAdd(out, (unsigned long long)v); }
extern "C" __global__ void partial_f64(double* part, const double* in, int n) { double s = 0; STRIDE s += in[i]; s = add(s); if (threadIdx.x == 0) part[blockIdx.x] = s; }
extern "C" __global__ void final_f64(double* out, const double* part) { double s = 0; for (int i = 0; i < 32; ++i) s += part[i]; *out = s; }
extern "C" __global__ void partial_dot(float* part, const float* a, const float* b, int n) { float s = 0; STRIDE s = fmaf(a[i], b[i], s); s = add(s); if (threadIdx.x == 0) part[blockIdx.x] = s; }
extern "C" __global__ void final_dot(float* out, const float* part) { float s = part[threadIdx.x]; for (int d = 16; d; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d); if (threadIdx.x == 0) *out = s; }
extern "C" __global__ void clear_max(int* out) { *out = (int)0x80000000; }
extern "C" __global__ void max_i32(int* out, const int* in, int n) { int b = (int)0x80000000; STRIDE b = max(b, in[i]); b = __reduce_max_sync(0xffffffffu, b); if (threadIdx.x % 32 == 0) atomicMax(out, b); }
extern "C" __global__ void clear_zero(int* out) { *out = 0; }
extern "C" __global__ void count_positive(int* out, const float* in, int n) { int c = 0; STRIDE c += in[i] > 0.0f; c = add(c); if (threadIdx.x == 0) atomicAdd(out, c); }
extern "C" __global__ void count_sign(int* out, const float* in, int n) { int c = 0; STRIDE c += __float_as_int(in[i]) >= 0; c = add(c); if (threadIdx.x == 0) atomicAdd(out, c); }
