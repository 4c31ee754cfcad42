// How the elements of an array are divided among the threads of a grid.
#pragma once

#include "../common/quads.cuh"

// One thread's share of n floats, in a fixed order: of_four gets each float4, one grid apart, of which LOADS are in
// flight at once and none is kept in a cache; of_one gets at most one of the last n % 4 floats.
template <int LOADS, typename OfFour, typename OfOne>
__device__ __forceinline__ void for_share_of_thread(const float* __restrict__ in, size_t n, OfFour of_four, OfOne of_one) {
    const size_t thread = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    const size_t quads = n / 4;
    size_t i = thread;
#pragma unroll 1
    for (; i + (LOADS - 1) * stride < quads; i += LOADS * stride) {
        float4 values[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            values[k] = __ldcs(as_quads(in) + i + k * stride);
        }
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            of_four(values[k]);
        }
    }
    for (; i < quads; i += stride) {
        of_four(__ldcs(as_quads(in) + i));
    }
    if (thread < n % 4) {
        of_one(in[n - 1 - thread]);
    }
}
