#include <cuda_fp16.h>
#include <cuda_bf16.h>
struct Pair { float a, b; __device__ Pair() {} __device__ Pair(float x) : a(x), b(x) {} };
__global__ void constructed(float* out) {
    __shared__ half h[64];
    __shared__ half2 h2[64];
    __shared__ __nv_bfloat16 brain[64];
    __shared__ Pair pairs[64];
    const int t = threadIdx.x;
    if (out[t] == 0) { h[t] = t; h2[t] = __half2half2(h[t]); brain[t] = t; pairs[t] = Pair(t); }
    __syncthreads();
    out[t] = __half2float(h[63 - t]) + __low2float(h2[63 - t]) + __bfloat162float(brain[63 - t]) + pairs[63 - t].a;
}
