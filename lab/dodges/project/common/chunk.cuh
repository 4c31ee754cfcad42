// The sum of part of a chunk of 65536 elements, by a block of 256 threads; every thread gets it.
#pragma once

constexpr int CHUNK = 65536;

__device__ __forceinline__ float block_sum(float value)
{
    __shared__ float parts[8];
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, lanes);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = value;
    }
    __syncthreads();
    float sum = 0.0f;
    for (int warp = 0; warp < 8; ++warp) {
        sum += parts[warp];
    }
    return sum;
}

__device__ __forceinline__ float part_sum(const float* x, int first, int end)
{
    float sum = 0.0f;
#pragma unroll 8
    for (int i = first + threadIdx.x; i < end; i += 256) {
        sum += x[i];
    }
    return block_sum(sum);
}
