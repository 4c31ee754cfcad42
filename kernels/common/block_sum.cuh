// Sum over a block of whole warps: shuffles within each warp, then one float of shared memory per warp.
#pragma once

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_down_sync(0xffffffffu, value, distance);
    }
    return value;
}

// The sum of `value` over the block, in thread 0; other threads get a partial sum. All threads of the block have to
// call it; the block is one-dimensional, and its size a multiple of 32.
__device__ __forceinline__ float block_sum(float value) {
    __shared__ float sums[32];
    const unsigned lane = threadIdx.x % 32;
    const unsigned warp = threadIdx.x / 32;
    value = warp_sum(value);
    if (lane == 0) {
        sums[warp] = value;
    }
    __syncthreads();
    if (warp == 0) {
        value = warp_sum(lane < blockDim.x / 32 ? sums[lane] : 0.0f);
    }
    return value;
}
