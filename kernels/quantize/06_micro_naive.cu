// micro_naive: codes of 8 or 4 bits with a scale per 16 or 32 elements, one group per thread.
//
// Tensor cores of Blackwell multiply such groups with their scales, which are bytes: a power of two, or a number in
// e4m3. Against blocks a group is so small that one thread reads it alone, without a shuffle; but the threads of a warp
// read and store at distances of a group, 2 bytes and 1 byte at a time, and the group is read twice. Expect a small
// part of the roof.
//
// `n` is even where two codes share a byte; the first is its low half. Scales are stored as a matrix, row by row.

#include "micro.cuh"

#ifndef FORMAT
#define FORMAT Nvfp4
#endif
#ifndef BLOCK
#define BLOCK 128
#endif

extern "C" __global__ void __launch_bounds__(BLOCK)
    micro_naive(unsigned char* __restrict__ codes, unsigned char* __restrict__ scales, const bfloat16* __restrict__ in,
                const float* __restrict__ of_matrix, int rows, int n) {
    constexpr int PER_BYTE = 8 / FORMAT::BITS;
    const unsigned in_row = (n + FORMAT::GROUP - 1) / FORMAT::GROUP;
    const unsigned group = blockIdx.x * BLOCK + threadIdx.x;
    const unsigned row = group / in_row;
    if (row >= rows) {
        return;
    }
    const int first = (group - row * in_row) * FORMAT::GROUP;
    const int end = min(first + FORMAT::GROUP, n);
    in += static_cast<size_t>(row) * n;
    codes += static_cast<size_t>(row) * n / PER_BYTE;
    float largest = 0.0f;
    for (int i = first; i < end; ++i) {
        largest = larger(largest, fabsf(as_float(in[i])));
    }
    const GroupScale scale = FORMAT::scale_of(largest, *of_matrix);
    for (int i = first; i < end; i += PER_BYTE) {
        unsigned byte = 0;
        for (int k = 0; k < PER_BYTE; ++k) {
            byte |= FORMAT::code(as_float(in[i + k]), scale.inverse) << FORMAT::BITS * k;
        }
        codes[i / PER_BYTE] = static_cast<unsigned char>(byte);
    }
    scales[group] = scale.code;
}
