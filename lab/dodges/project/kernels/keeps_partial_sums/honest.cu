#include "rows.cuh"

extern "C" __global__ void partial_sums(float* sums, const float* x, int n)
{
    float part = 0.0f;
    for (int at = blockIdx.x * BLOCK + threadIdx.x; at < n; at += gridDim.x * BLOCK) { part += x[at]; }
    const float sum = sum_of_block(part);
    if (threadIdx.x == 0) { sums[blockIdx.x] = sum; }
}

extern "C" __global__ void final_sum(float* out, const float* sums, int count)
{
    float part = 0.0f;
    for (int at = threadIdx.x; at < count; at += BLOCK) { part += sums[at]; }
    const float sum = sum_of_block(part);
    if (threadIdx.x == 0) { out[0] = sum; }
}
