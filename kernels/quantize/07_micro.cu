// micro: the same formats, 16 elements per thread in registers: each is read once, 16 bytes per load.
//
// Against micro_naive a thread keeps its elements between the search for the largest and their conversion, lanes that
// share a group exchange what they found, and all codes of a thread are one store. Of 4-bit codes little is stored, so
// that reads are most of the traffic and instructions count: the largest magnitude is found in pairs, and rows of whole
// groups are treated as one row, without a division. Expect the roof.

#include "micro.cuh"

#ifndef FORMAT
#define FORMAT Nvfp4
#endif
#ifndef BLOCK
#define BLOCK 128
#endif

constexpr int VECTORS = 2;
constexpr int ELEMENTS = 8 * VECTORS;  // of a thread
constexpr int LANES = FORMAT::GROUP / ELEMENTS;
constexpr int WORDS = FORMAT::BITS / 4;  // of the codes of a vector

constexpr int PER_BYTE = 8 / FORMAT::BITS;

// The largest magnitudes at the two places of a pair, NaN where one is.
__device__ __forceinline__ __nv_bfloat162 largest_pair(uint4 vector) {
    const auto* pair = reinterpret_cast<const __nv_bfloat162*>(&vector);
    return __hmax2_nan(__hmax2_nan(__habs2(pair[0]), __habs2(pair[1])),
                       __hmax2_nan(__habs2(pair[2]), __habs2(pair[3])));
}

// Stores the codes of a thread, `left` elements before the end of their row.
__device__ __forceinline__ void store_words(unsigned char* __restrict__ to, const unsigned (&words)[VECTORS][WORDS],
                                            int left) {
    if (left % ELEMENTS == 0) {
        if (left > 0) {
            if constexpr (WORDS == 2) {
                *reinterpret_cast<uint4*>(to) = make_uint4(words[0][0], words[0][1], words[1][0], words[1][1]);
            } else {
                *reinterpret_cast<uint2*>(to) = make_uint2(words[0][0], words[1][0]);
            }
        }
        return;
    }
#pragma unroll
    for (int byte = 0; byte < ELEMENTS / PER_BYTE; ++byte) {
        if (byte * PER_BYTE < left) {
            to[byte] = static_cast<unsigned char>(words[byte / 4 / WORDS][byte / 4 % WORDS] >> 8 * (byte % 4));
        }
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK, 2048 / BLOCK)
    micro(unsigned char* __restrict__ codes, unsigned char* __restrict__ scales, const bfloat16* __restrict__ in,
          const float* __restrict__ of_matrix, int rows, int n) {
    const unsigned in_row = (n + FORMAT::GROUP - 1) / FORMAT::GROUP;
    const unsigned group = blockIdx.x * (BLOCK / LANES) + threadIdx.x / LANES;
    const bool one_row = n % FORMAT::GROUP == 0;
    const unsigned row = one_row ? 0 : group / in_row;
    const int length = one_row ? rows * n : row < rows ? n : 0;  // all lanes of a warp take part in its shuffles
    const int first = (group - row * in_row) * FORMAT::GROUP + threadIdx.x % LANES * ELEMENTS;
    const size_t at = static_cast<size_t>(row) * n + first;
    const float matrix = *of_matrix;
    uint4 held[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        held[k] = load_vector(in + at, k * 8, length - first);
    }
    const float2 pair = __bfloat1622float2(__hmax2_nan(largest_pair(held[0]), largest_pair(held[1])));
    float largest = larger(pair.x, pair.y);
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        largest = larger(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    }
    const GroupScale scale = FORMAT::scale_of(largest, matrix);
    unsigned words[VECTORS][WORDS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        FORMAT::codes(words[k], held[k], scale.inverse);
    }
    store_words(codes + at / PER_BYTE, words, length - first);
    if (threadIdx.x % LANES == 0 && first < length) {
        scales[group] = scale.code;
    }
}
