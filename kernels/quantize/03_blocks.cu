// blocks: one scale per 128 elements of a row instead of one per row, found by a few lanes of a warp.
//
// Against registers an outlier makes the scale of only 128 elements coarser, and lanes synchronize only with the lanes
// that share their scale: no barrier, and no limit to the length of a row. The scales cost 4 more bytes per 128
// elements. A thread has VECTORS vectors of a group, so that its position, the scale and its inverse are computed once
// for all of them. Expect the roof again.

#include "codes.cuh"

#ifndef KIND
#define KIND E4m3
#endif
#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef VECTORS
#define VECTORS 2
#endif

constexpr int ELEMENTS = 128;  // that share a scale
constexpr int LANES = ELEMENTS / 8 / VECTORS;

__device__ __forceinline__ __nv_bfloat162 as_pair(unsigned bits) {
    return __halves2bfloat162(__ushort_as_bfloat16(static_cast<unsigned short>(bits)),
                              __ushort_as_bfloat16(static_cast<unsigned short>(bits >> 16)));
}

// The largest magnitude in a vector: compared in pairs as far as possible.
__device__ __forceinline__ float largest_by_pairs(uint4 vector) {
    const __nv_bfloat162 a = __hmax2(__habs2(as_pair(vector.x)), __habs2(as_pair(vector.y)));
    const __nv_bfloat162 b = __hmax2(__habs2(as_pair(vector.z)), __habs2(as_pair(vector.w)));
    const float2 largest = __bfloat1622float2(__hmax2(a, b));
    return fmaxf(largest.x, largest.y);
}

// a / b, in few instructions if b, which is the same for all threads, is a power of two.
__device__ __forceinline__ unsigned quotient(unsigned a, unsigned b) {
    return (b & (b - 1)) == 0 ? a >> (__ffs(b) - 1) : a / b;
}

extern "C" __global__ void __launch_bounds__(BLOCK, 2048 / BLOCK)
    blocks(unsigned char* __restrict__ codes, float* __restrict__ scales, const bfloat16* __restrict__ in, int rows, int n) {
    const unsigned in_row = (n + ELEMENTS - 1) / ELEMENTS;
    const unsigned group = blockIdx.x * (BLOCK / LANES) + threadIdx.x / LANES;
    const unsigned row = quotient(group, in_row);
    const int length = row < rows ? n : 0;  // all lanes of a warp take part in its shuffles
    const int first = (group - row * in_row) * ELEMENTS + threadIdx.x % LANES * 8;
    in += static_cast<size_t>(row) * n;
    codes += static_cast<size_t>(row) * n;
    uint4 held[VECTORS];
    float largest = 0.0f;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        held[k] = load_vector(in, first + k * LANES * 8, length);
    }
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        largest = fmaxf(largest, largest_by_pairs(held[k]));
    }
    const Scaling scaling = scaling_of<KIND>(largest_lane<LANES>(largest));
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        store_codes<KIND>(codes, held[k], scaling.inverse, first + k * LANES * 8, length);
    }
    if (threadIdx.x % LANES == 0 && row < rows) {
        scales[group] = scaling.scale;
    }
}
