// x minus its mean, from partial sums in the first of each four elements of `sums`.
#pragma once

__device__ __forceinline__ float block_sum(float value)
{
    __shared__ float parts[8];
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, lanes);
    }
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

__device__ __forceinline__ float my_sum(const float* x, int n)
{
    float sum = 0.0f;
#pragma unroll 8
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        sum += x[i];
    }
    return block_sum(sum);
}

__device__ __forceinline__ void centre(float* out, const float* x, const float* sums, int n)
{
    float sum = 0.0f;
    for (int at = threadIdx.x; at < gridDim.x; at += 256) {
        sum += sums[4 * at];
    }
    const float mean = block_sum(sum) / n;
#pragma unroll 8
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        out[i] = x[i] - mean;
    }
}
