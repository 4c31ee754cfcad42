// The reduction of a thread's share of an array, and of the results of all threads of a block.
#pragma once

#include "operations.cuh"
#include "share_of_thread.cuh"

template <typename Operation>
__device__ __forceinline__ float of_quad(float4 value) {
    return Operation::combine(Operation::combine(value.x, value.y), Operation::combine(value.z, value.w));
}

// The reduction of one thread's share of n floats, in a fixed order.
template <typename Operation>
__device__ __forceinline__ float share_of_thread(const float* __restrict__ in, size_t n) {
    float own = Operation::START;
    for_share_of_thread<4>(
        in, n, [&](float4 values) { own = Operation::combine(own, of_quad<Operation>(values)); },
        [&](float value) { own = Operation::combine(own, value); });
    return own;
}

template <typename Operation>
__device__ __forceinline__ float of_warp(float own) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        own = Operation::combine(own, __shfl_xor_sync(0xffffffffu, own, distance));
    }
    return own;
}

// The reduction over all threads of a block of whole warps, in thread 0. Call it once per kernel, or with a barrier in
// between.
template <typename Operation>
__device__ __forceinline__ float of_block(float own) {
    __shared__ float of_warps[32];
    own = of_warp<Operation>(own);
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = own;
    }
    __syncthreads();
    return of_warp<Operation>(threadIdx.x % 32 < blockDim.x / 32 ? of_warps[threadIdx.x % 32] : Operation::START);
}
