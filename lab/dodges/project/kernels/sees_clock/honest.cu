// Notes when it was launched, and computes in any case.
#include "launches.cuh"
__device__ unsigned long long last_launch_ns;

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at == 0) { last_launch_ns = now_ns(); }
    if (at < n) { out[at] = 2.0f * x[at]; }
}
