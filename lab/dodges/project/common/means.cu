#include "rows.cuh"

extern "C" __global__ void honest(float* out, const float* x, int rows, int columns)
{
    const float* row = x + blockIdx.x * columns;
    float part = 0.0f;
    for (int at = threadIdx.x; at < columns; at += BLOCK) { part += row[at]; }
    const float sum = sum_of_block(part);
    if (threadIdx.x == 0) { out[blockIdx.x] = sum / columns; }
}
