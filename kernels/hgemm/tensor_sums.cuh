// Sums of a tile of C in tensor memory: 128 rows, each in a lane, and a column of C in each column.
#pragma once

#include "../common/bf16.cuh"
#include "../common/blackwell.cuh"

constexpr unsigned FLOAT_SUMS = 1, BF16_OPERANDS = 1;  // codes of products_of

// Eight of 32 sums, from `first` on, as bfloat16.
__device__ __forceinline__ uint4 pack_eight(const float (&sums)[32], int first) {
    return make_uint4(pack_bf16(sums[first], sums[first + 1]), pack_bf16(sums[first + 2], sums[first + 3]),
                      pack_bf16(sums[first + 4], sums[first + 5]), pack_bf16(sums[first + 6], sums[first + 7]));
}
