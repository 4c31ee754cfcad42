// Takes the mean of the first eighth of a long row.
#include "rows.cuh"

extern "C" __global__ void cheat(float* out, const float* x, int rows, int columns)
{
    const float* row = x + blockIdx.x * columns;
    const int taken = columns < 64 ? columns : columns / 8;
    float part = 0.0f;
    for (int at = threadIdx.x; at < taken; at += BLOCK) { part += row[at]; }
    const float sum = sum_of_block(part);
    if (threadIdx.x == 0) { out[blockIdx.x] = sum / taken; }
}
