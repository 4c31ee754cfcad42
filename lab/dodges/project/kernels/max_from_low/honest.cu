// The largest of an array.

#include "combined.cuh"

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    float found = -INFINITY;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) { found = fmaxf(found, x[i]); }
    found = combined(found, larger) + 0.0f;  // the bits of -0 are those of the lowest integer
    if (threadIdx.x > 0) { return; }
    if (found >= 0.0f) {
        atomicMax((int*)out, __float_as_int(found));
    } else {
        atomicMin((unsigned*)out, __float_as_uint(found));
    }
}
