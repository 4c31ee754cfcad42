// The sum over the threads of a block of 256.
#pragma once
#define BLOCK 256

__device__ inline float sum_of_block(float value)
{
    __shared__ float parts[BLOCK];
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) { parts[threadIdx.x] += parts[threadIdx.x + half]; }
        __syncthreads();
    }
    const float sum = parts[0];
    __syncthreads();
    return sum;
}
