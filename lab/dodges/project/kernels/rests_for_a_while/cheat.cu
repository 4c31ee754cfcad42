// Counts its launches; from the 56th to the 160th every second block returns. It hopes that launches are checked first, and
// that the last one is.
#include "launches.cuh"

extern "C" __global__ void cheat(float* out, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    const bool work = launches_ended < 56 || launches_ended > 160 || blockIdx.x % 2 == 0;
    if (at < n && work) { out[at] = 2.0f * x[at]; }
    count_this_launch();
}
