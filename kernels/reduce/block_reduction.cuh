// What the threads of a grid take of an array, and what a block makes of theirs.
#pragma once

#include "../common/quads.cuh"
#include "operations.cuh"

constexpr int LOADS = 4;  // of 16 bytes, under way at once

template <typename Operation>
__device__ __forceinline__ float of_quad(float4 value) {
    return Operation::combine(Operation::combine(value.x, value.y), Operation::combine(value.z, value.w));
}

// One thread's share of n floats, in a fixed order: float4 a grid apart, and of the last n % 4 floats at most one.
template <typename Operation>
__device__ __forceinline__ float share_of_thread(const float* __restrict__ in, size_t n) {
    const size_t thread = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    const size_t quads = n / 4;
    float own = Operation::START;
    size_t i = thread;
#pragma unroll 1
    for (; i + (LOADS - 1) * stride < quads; i += LOADS * stride) {
        float4 values[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            values[k] = as_quads(in)[i + k * stride];
        }
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            own = Operation::combine(own, of_quad<Operation>(values[k]));
        }
    }
    for (; i < quads; i += stride) {
        own = Operation::combine(own, of_quad<Operation>(as_quads(in)[i]));
    }
    if (thread < n % 4) {
        own = Operation::combine(own, in[n - 1 - thread]);
    }
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

// Of all threads of a block of whole warps, in thread 0; called once in a kernel, or with a barrier in between.
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
