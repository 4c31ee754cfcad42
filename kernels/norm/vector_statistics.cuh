// Statistics of vectors of 16 bytes and of groups of threads, and the normalisation of vectors.
#pragma once

#include "statistics.cuh"

// Calls `each` with every element of COUNT vectors of a row of n elements: vector k begins at element first + k * step.
template <typename T, int COUNT, typename Each>
__device__ __forceinline__ void for_elements(const uint4 (&vectors)[COUNT], int first, int step, int n, Each each) {
#pragma unroll
    for (int k = 0; k < COUNT; ++k) {
        float x[PER_VECTOR<T>];
        unpack(x, vectors[k]);
#pragma unroll
        for (int i = 0; i < PER_VECTOR<T>; ++i) {
            if (first + k * step + i < n) {
                each(x[i]);
            }
        }
    }
}

// The statistics of these elements.
template <typename Norm, typename T, int COUNT>
__device__ __forceinline__ Statistics statistics_of(const uint4 (&vectors)[COUNT], int first, int step, int n) {
    float folded = Norm::START;
    int count = 0;
    for_elements<T>(vectors, first, step, n, [&](float x) {
        folded = Norm::fold(folded, x);
        ++count;
    });
    const float centre = Norm::centre(folded, static_cast<float>(count));
    float sum = 0.0f;
    for_elements<T>(vectors, first, step, n, [&](float x) { sum += Norm::term(x, centre); });
    return {sum, centre, static_cast<float>(count)};
}

// Merges the statistics of the GROUP neighbouring threads of a group, a power of two; each of them gets the result. A
// group of more than a warp is the whole block.
template <typename Norm, int GROUP>
__device__ __forceinline__ Statistics merged_threads(Statistics own) {
    own = merged_lanes<Norm, (GROUP < 32 ? GROUP : 32)>(own);
    if constexpr (GROUP > 32) {
        __shared__ Statistics of_warps[GROUP / 32];
        if (threadIdx.x % 32 == 0) {
            of_warps[threadIdx.x / 32] = own;
        }
        __syncthreads();
        own = merged_lanes<Norm, GROUP / 32>(of_warps[threadIdx.x % (GROUP / 32)]);
    }
    return own;
}

// Normalises and stores the vector of a row that begins at element `first`.
template <typename Norm, typename T>
__device__ __forceinline__ void store_normalised(T* __restrict__ row, uint4 vector, Factors factors,
                                                 const T* __restrict__ weight, const T* __restrict__ bias, int first,
                                                 int n) {
    float x[PER_VECTOR<T>], times[PER_VECTOR<T>] = {}, plus[PER_VECTOR<T>] = {};
    unpack(x, vector);
    if (Norm::PARAMETERS > 0) {
        unpack(times, load_vector(weight, first, n));
    }
    if (Norm::PARAMETERS > 1) {
        unpack(plus, load_vector(bias, first, n));
    }
#pragma unroll
    for (int i = 0; i < PER_VECTOR<T>; ++i) {
        x[i] = Norm::apply(x[i], factors, times[i], plus[i]);
    }
    store_vector(row, first, n, x);
}
