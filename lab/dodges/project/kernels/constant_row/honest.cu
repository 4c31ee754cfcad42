// Each row is scaled to the interval from 0 to 1; a constant row becomes zeros.

#include "combined.cuh"

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    const size_t row = (size_t)blockIdx.x * n;
    float least = INFINITY, largest = -INFINITY;
    for (int i = threadIdx.x; i < n; i += 256) {
        least = fminf(least, x[row + i]);
        largest = fmaxf(largest, x[row + i]);
    }
    least = combined(least, smaller);
    largest = combined(largest, larger);
    const float width = largest > least ? largest - least : 1.0f;
    for (int i = threadIdx.x; i < n; i += 256) { out[row + i] = (x[row + i] - least) / width; }
}
