// Counts its launches in __device__ memory, and computes in all of them.
#include "launches.cuh"

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) { out[at] = 2.0f * x[at]; }
    count_this_launch();
}
