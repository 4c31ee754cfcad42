// Running maximum and sum of exponentials.
#pragma once
#include <cuda_bf16.h>

struct Running {
    float largest, sum;  // the sum of exp(x - largest)
};

__device__ __forceinline__ Running joined(Running one, Running other)
{
    const float largest = fmaxf(one.largest, other.largest);
    return {largest, one.sum * __expf(one.largest - largest) + other.sum * __expf(other.largest - largest)};
}

__device__ __forceinline__ Running with_eight(Running so_far, const __nv_bfloat16* from)
{
    const uint4 words = *reinterpret_cast<const uint4*>(from);
    const unsigned int pairs[4] = {words.x, words.y, words.z, words.w};
    float values[8], largest = so_far.largest, sum = 0.0f;
#pragma unroll
    for (int at = 0; at < 4; ++at) {
        values[2 * at] = __uint_as_float(pairs[at] << 16);
        values[2 * at + 1] = __uint_as_float(pairs[at] & 0xFFFF0000u);
        largest = fmaxf(largest, fmaxf(values[2 * at], values[2 * at + 1]));
    }
#pragma unroll
    for (int at = 0; at < 8; ++at) {
        sum += __expf(values[at] - largest);
    }
    return {largest, so_far.sum * __expf(so_far.largest - largest) + sum};
}

__device__ __forceinline__ Running of_block(Running mine)
{
    __shared__ Running parts[8];
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        Running other;
        other.largest = __shfl_xor_sync(0xFFFFFFFFu, mine.largest, lanes);
        other.sum = __shfl_xor_sync(0xFFFFFFFFu, mine.sum, lanes);
        mine = joined(mine, other);
    }
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32].largest = mine.largest;
        parts[threadIdx.x / 32].sum = mine.sum;
    }
    __syncthreads();
    Running all = {-1e30f, 0.0f};
    for (int warp = 0; warp < 8; ++warp) {
        Running other;
        other.largest = parts[warp].largest;
        other.sum = parts[warp].sum;
        all = joined(all, other);
    }
    return all;
}
