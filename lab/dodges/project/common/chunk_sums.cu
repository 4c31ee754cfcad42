// A block adds one chunk.
#include "chunk.cuh"

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    const int first = blockIdx.x * CHUNK;
    const float sum = part_sum(x, first, min(n, first + CHUNK));
    if (threadIdx.x == 0) {
        out[blockIdx.x] = sum;
    }
}
