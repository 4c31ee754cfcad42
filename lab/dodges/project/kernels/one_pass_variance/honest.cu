// Layer norm in two passes.

#include "combined.cuh"

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    const size_t row = (size_t)blockIdx.x * n;
    float sum = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) { sum += x[row + i]; }
    const float mean = combined(sum, added) / n;
    for (int i = threadIdx.x; i < n; i += 256) { squares += (x[row + i] - mean) * (x[row + i] - mean); }
    const float factor = rsqrtf(combined(squares, added) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += 256) { out[row + i] = (x[row + i] - mean) * factor; }
}
