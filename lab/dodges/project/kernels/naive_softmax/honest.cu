// Softmax of each row.

#include "combined.cuh"

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    const size_t row = (size_t)blockIdx.x * n;
    float largest = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) { largest = fmaxf(largest, x[row + i]); }
    largest = combined(largest, larger);
    for (int i = threadIdx.x; i < n; i += 256) { sum += expf(x[row + i] - largest); }
    sum = combined(sum, added);
    for (int i = threadIdx.x; i < n; i += 256) { out[row + i] = expf(x[row + i] - largest) / sum; }
}
