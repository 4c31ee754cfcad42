#include "waves.cuh"

extern "C" __global__ void honest(float* y, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) { y[at] = wave(x[at]); }
}
