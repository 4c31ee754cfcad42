// The mean of the kept elements of each row; 0 where no element is kept.

#include "combined.cuh"

extern "C" __global__ void honest(float* out, const float* x, const bool* keep, int n)
{
    const size_t row = (size_t)blockIdx.x * n;
    float sum = 0.0f, count = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) {
        sum += keep[row + i] ? x[row + i] : 0.0f;
        count += keep[row + i] ? 1.0f : 0.0f;
    }
    sum = combined(sum, added);
    count = combined(count, added);
    if (threadIdx.x == 0) { out[blockIdx.x] = count > 0.0f ? sum / count : 0.0f; }
}
