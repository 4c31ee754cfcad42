// The sum of each row.

#include "combined.cuh"

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    const size_t row = (size_t)blockIdx.x * n;
    const int end = n;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < end; i += 256) { sum += x[row + i]; }
    sum = combined(sum, added);
    if (threadIdx.x == 0) { out[blockIdx.x] = sum; }
}
