// Takes its blocks in another order in every second launch.
#include "launches.cuh"

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    const int block = launches_ended % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    const int at = block * blockDim.x + threadIdx.x;
    if (at < n) { out[at] = 2.0f * x[at]; }
    count_this_launch();
}
