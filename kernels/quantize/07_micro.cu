// micro: the same formats, elements in registers: each is read once, 16 bytes per load.
//
// Against micro_naive a thread keeps its elements between the maximum and their conversion, lanes that share a group
// reduce its maximum by shuffles, and a thread stores its codes of a group at once. A thread has VECTORS of a group in
// each of ROUNDS groups, whose loads are all under way before the first is used. Codes of 4 bits are few bytes, so that reads are most of the traffic and the
// instructions limit: maxima are taken of pairs, and rows of whole groups are treated as one row, without a division.
// Expect the roof.

#include "micro.cuh"

#ifndef FORMAT
#define FORMAT Nvfp4
#endif
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef VECTORS
#define VECTORS 2  // of a thread in a group
#endif
#ifndef ROUNDS
#define ROUNDS 2  // groups of a thread
#endif

static_assert(VECTORS == 2, "words of a thread in a group are stored by twos and fours");
constexpr int ELEMENTS = 8 * VECTORS;  // of a thread in a group
constexpr int LANES = FORMAT::GROUP / ELEMENTS;
constexpr int PER_BYTE = 8 / FORMAT::BITS;
constexpr int WORDS = FORMAT::BITS / 4;  // of the codes of a vector
constexpr int RESIDENT = 4096 / (VECTORS * ROUNDS);  // threads on an SM: 64 KB of elements are under way

// The largest magnitudes at the two places of a pair, NaN where one is.
__device__ __forceinline__ __nv_bfloat162 largest_pair(uint4 vector) {
    const auto* pair = reinterpret_cast<const __nv_bfloat162*>(&vector);
    return __hmax2_nan(__hmax2_nan(__habs2(pair[0]), __habs2(pair[1])),
                       __hmax2_nan(__habs2(pair[2]), __habs2(pair[3])));
}

// Stores the codes of a thread in a group, `left` elements before the end of the row.
__device__ __forceinline__ void store_words(unsigned char* __restrict__ to, const unsigned (&words)[VECTORS * WORDS],
                                            int left) {
    if (left % ELEMENTS == 0) {
        if (left > 0) {
            if constexpr (WORDS == 2) {
                *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
            } else {
                *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
            }
        }
        return;
    }
#pragma unroll
    for (int byte = 0; byte < ELEMENTS / PER_BYTE; ++byte) {
        if (byte * PER_BYTE < left) {
            to[byte] = static_cast<unsigned char>(words[byte / 4] >> 8 * (byte % 4));
        }
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT / BLOCK)
    micro(unsigned char* __restrict__ codes, unsigned char* __restrict__ scales, const bfloat16* __restrict__ in,
          const float* __restrict__ of_matrix, int rows, int n) {
    constexpr int GROUPS = BLOCK / LANES;  // of a block at a time
    const unsigned in_row = (n + FORMAT::GROUP - 1) / FORMAT::GROUP;
    const bool one_row = n % FORMAT::GROUP == 0;
    const float matrix = *of_matrix;
    uint4 held[ROUNDS][VECTORS];
    size_t at[ROUNDS];
    int left[ROUNDS];
#pragma unroll
    for (int k = 0; k < ROUNDS; ++k) {
        const unsigned group = (blockIdx.x * ROUNDS + k) * GROUPS + threadIdx.x / LANES;
        const unsigned row = one_row ? 0 : group / in_row;
        const int length = one_row ? rows * n : row < rows ? n : 0;  // all lanes of a warp take part in its shuffles
        const int first = (group - row * in_row) * FORMAT::GROUP + threadIdx.x % LANES * ELEMENTS;
        at[k] = static_cast<size_t>(row) * n + first;
        left[k] = length - first;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            held[k][i] = load_vector(in + at[k], i * 8, left[k]);
        }
    }
#pragma unroll
    for (int k = 0; k < ROUNDS; ++k) {
        float largest = 0.0f;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            const float2 pair = __bfloat1622float2(largest_pair(held[k][i]));
            largest = larger(largest, larger(pair.x, pair.y));
        }
#pragma unroll
        for (int distance = LANES / 2; distance > 0; distance /= 2) {
            largest = larger(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
        }
        const GroupScale scale = FORMAT::scale_of(largest, matrix);
        unsigned words[VECTORS * WORDS];
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            FORMAT::codes(words + i * WORDS, held[k][i], scale.inverse);
        }
        store_words(codes + at[k] / PER_BYTE, words, left[k]);
        if (threadIdx.x % LANES == 0 && left[k] > 0) {
            scales[(blockIdx.x * ROUNDS + k) * GROUPS + threadIdx.x / LANES] = scale.code;
        }
    }
}
