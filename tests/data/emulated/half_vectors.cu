#include <cuda_fp16.h>
__global__ void half_vectors(float4* out, const float4* in) {
    __shared__ half a[64], b[64], c[64];
    const int t = threadIdx.x;
    reinterpret_cast<float4*>(a)[t] = in[t];
    reinterpret_cast<float4*>(b)[t] = in[t];
    reinterpret_cast<float4*>(c)[t] = in[t];
    out[t] = reinterpret_cast<float4*>(b)[t];
}
