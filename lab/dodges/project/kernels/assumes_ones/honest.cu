#include "rows.cuh"

extern "C" __global__ void honest(float* out, const float* x, const float* weights, int rows, int columns)
{
    const float* row = x + blockIdx.x * columns;
    float part = 0.0f;
    for (int at = threadIdx.x; at < columns; at += BLOCK) { part += row[at] * row[at]; }
    const float factor = rsqrtf(sum_of_block(part) / columns);
    for (int at = threadIdx.x; at < columns; at += BLOCK) { out[blockIdx.x * columns + at] = weights[at] * row[at] * factor; }
}
