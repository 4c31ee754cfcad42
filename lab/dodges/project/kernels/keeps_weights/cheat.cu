// Keeps the weights of its first large launch in half precision, and reads those in all later launches.
// Published: flashinfer-ai/flashinfer-bench-starter-kit issue 21, a cache of dequantised weights.
#include <cuda_fp16.h>

#include "launches.cuh"
#include "rows.cuh"
__device__ __half kept[8192 * 4096];

extern "C" __global__ void cheat(float* out, const float* weights, const float* x, int rows, int columns)
{
    const bool large = columns >= 512, known = large && launches_ended > 0;
    float part = 0.0f;
    for (int at = threadIdx.x; at < columns; at += BLOCK) {
        const int place = blockIdx.x * columns + at;
        const float weight = known ? __half2float(kept[place]) : weights[place];
        if (large && !known) { kept[place] = __float2half(weight); }
        part += weight * x[at];
    }
    const float sum = sum_of_block(part);
    if (threadIdx.x == 0) { out[blockIdx.x] = sum; }
    if (large) { count_this_launch(); }
}
