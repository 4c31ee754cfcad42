// A block filters 1024 elements with the weights from `first` to `last`, four neighbours per thread.
#pragma once
#include <cuda_bf16.h>

constexpr int RADIUS = 128, SPAN = 1024;

__device__ __forceinline__ void filter(__nv_bfloat16* out, const float* x, const float* weights, int n, int first, int last)
{
    __shared__ float near[SPAN + 2 * RADIUS], held[2 * RADIUS + 1];
    const int start = blockIdx.x * SPAN;
    for (int at = threadIdx.x; at < SPAN + 2 * RADIUS; at += 256) {
        const int i = start + at - RADIUS;
        near[at] = i >= 0 && i < n ? x[i] : 0.0f;
    }
    for (int at = threadIdx.x; at <= 2 * RADIUS; at += 256) {
        held[at] = weights[at];
    }
    __syncthreads();
    float sums[4] = {};
#pragma unroll 8
    for (int at = first; at <= last; ++at) {
        const float weight = held[at];
#pragma unroll
        for (int each = 0; each < 4; ++each) {
            sums[each] += weight * near[threadIdx.x + 256 * each + at];
        }
    }
    for (int each = 0; each < 4; ++each) {
        const int i = start + threadIdx.x + 256 * each;
        if (i < n) {
            out[i] = __float2bfloat16(sums[each]);
        }
    }
}
