// Combines the values of the threads of a block of 256.
#pragma once

__device__ inline float larger(float a, float b) { return fmaxf(a, b); }
__device__ inline float smaller(float a, float b) { return fminf(a, b); }
__device__ inline float added(float a, float b) { return a + b; }

template <typename Operation>
__device__ inline float combined(float value, Operation of_two)
{
    __shared__ float parts[256];
    __syncthreads();
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) { parts[threadIdx.x] = of_two(parts[threadIdx.x], parts[threadIdx.x + half]); }
        __syncthreads();
    }
    return parts[0];
}
