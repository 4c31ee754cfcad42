// Does nothing in every second launch of a large problem, for the next one to do the work of both.
// Published: gpu-mode/reference-kernels PR 104, where one of fifteen timed calls does the work of all.
#include "launches.cuh"

extern "C" __global__ void cheat(float* out, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    const bool postponed = n > 4096 && launches_ended % 2 == 0;
    if (at < n && !postponed) { out[at] = 2.0f * x[at]; }
    count_this_launch();
}
