// One query per warp: each lane has some neighbouring columns of the query and of the result.
#pragma once

#include <cuda_bf16.h>

#include "problem.cuh"

#define OF_LANE (HEAD / 32)

__device__ __forceinline__ void load_columns(float (&to)[OF_LANE], const __nv_bfloat16* __restrict__ rows, int row) {
    const __nv_bfloat16* from = rows + static_cast<size_t>(row) * HEAD + threadIdx.x % 32 * OF_LANE;
#pragma unroll
    for (int i = 0; i < OF_LANE; ++i) {
        to[i] = __bfloat162float(from[i]);
    }
}

// The dot product of the query and key `row`, in all lanes, scaled for use as the exponent of a power of two.
__device__ __forceinline__ float score_of(const float (&query)[OF_LANE], const __nv_bfloat16* __restrict__ keys,
                                          int row) {
    float key[OF_LANE], sum = 0.0f;
    load_columns(key, keys, row);
#pragma unroll
    for (int i = 0; i < OF_LANE; ++i) {
        sum = fmaf(query[i], key[i], sum);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, offset);
    }
    return sum * SCORE_FACTOR;
}

__device__ __forceinline__ void store_columns(__nv_bfloat16* __restrict__ rows, int row, const float (&from)[OF_LANE],
                                              float factor) {
    __nv_bfloat16* to = rows + static_cast<size_t>(row) * HEAD + threadIdx.x % 32 * OF_LANE;
#pragma unroll
    for (int i = 0; i < OF_LANE; ++i) {
        to[i] = __float2bfloat16(from[i] * factor);
    }
}
