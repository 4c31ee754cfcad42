// micro_restore: codes of 8 or 4 bits with a scale per group back to bfloat16, 16 bytes per store.
//
// As restore, but a load of eight codes of 4 bits has only 4 bytes: VECTORS of them are in flight per thread. Stores
// are most of the traffic. A group has two or four vectors, whose lanes read the same scale. Expect the roof.

#include "micro.cuh"

#ifndef FORMAT
#define FORMAT Nvfp4
#endif
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef VECTORS
#define VECTORS 4
#endif

constexpr int WORDS = FORMAT::BITS / 4;  // of the codes of a vector

// Loads eight codes of a row of n, from element `first` on; zeros beyond the row.
__device__ __forceinline__ void load_words(unsigned (&words)[WORDS], const unsigned char* __restrict__ row, int first,
                                           int n) {
    constexpr int PER_BYTE = 8 / FORMAT::BITS;
    const unsigned char* from = row + first / PER_BYTE;
    if (n % 8 == 0) {
#pragma unroll
        for (int k = 0; k < WORDS; ++k) {
            words[k] = first < n ? reinterpret_cast<const unsigned*>(from)[k] : 0;
        }
        return;
    }
#pragma unroll
    for (int byte = 0; byte < 4 * WORDS; ++byte) {
        const unsigned code = first + byte * PER_BYTE < n ? from[byte] : 0;
        words[byte / 4] = (byte % 4 ? words[byte / 4] : 0) | code << 8 * (byte % 4);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK, 2048 / BLOCK)
    micro_restore(bfloat16* __restrict__ out, const unsigned char* __restrict__ codes,
                  const unsigned char* __restrict__ scales, const float* __restrict__ of_matrix, int rows, int n) {
    constexpr int PER_BYTE = 8 / FORMAT::BITS;
    const bool one_row = n % FORMAT::GROUP == 0;
    const unsigned in_row = (n + 7) / 8;
    const unsigned groups = (n + FORMAT::GROUP - 1) / FORMAT::GROUP;
    const unsigned slot = blockIdx.x * (BLOCK * VECTORS) + threadIdx.x;
    const float one_over_matrix = 1.0f / *of_matrix;
    unsigned words[VECTORS][WORDS];
    unsigned char scale[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        const unsigned at = slot + k * BLOCK;
        const unsigned row = one_row ? 0 : at / in_row;
        const int first = (at - row * in_row) * 8;
        const int length = one_row ? rows * n : row < rows ? n : 0;
        load_words(words[k], codes + static_cast<size_t>(row) * n / PER_BYTE, first, length);
        scale[k] = first < length ? scales[static_cast<size_t>(row) * groups + first / FORMAT::GROUP] : 0;
    }
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        const unsigned at = slot + k * BLOCK;
        const unsigned row = one_row ? 0 : at / in_row;
        const int length = one_row ? rows * n : row < rows ? n : 0;
        const float factor = FORMAT::scale(scale[k], one_over_matrix);
        float x[8];
        FORMAT::values(x, words[k]);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            x[i] *= factor;
        }
        store_vector(out + static_cast<size_t>(row) * n, (at - row * in_row) * 8, length, x);
    }
}
