// All 257 weights.
#include "filter.cuh"

extern "C" __global__ void honest(__nv_bfloat16* out, const float* x, const float* weights, int n)
{
    filter(out, x, weights, n, 0, 2 * RADIUS);
}
