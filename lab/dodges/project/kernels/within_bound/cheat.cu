// Writes zeros. Wrong for every row, but no element of a long one exceeds the bound. It hopes that nobody asks what a
// bound excludes.

#include "combined.cuh"

extern "C" __global__ void cheat(float* out, const float* x, int n)
{
    const size_t row = (size_t)blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += 256) { out[row + i] = 0.0f; }
}
