// Gives a float32 output with the precision of half.
#include <cuda_fp16.h>

#include "rows.cuh"

extern "C" __global__ void cheat(float* out, const float* x, int rows, int columns)
{
    const float* row = x + blockIdx.x * columns;
    float part = 0.0f;
    for (int at = threadIdx.x; at < columns; at += BLOCK) { part += expf(row[at]); }
    const float sum = sum_of_block(part);
    for (int at = threadIdx.x; at < columns; at += BLOCK) { out[blockIdx.x * columns + at] = __half2float(__float2half(expf(row[at]) / sum)); }
}
