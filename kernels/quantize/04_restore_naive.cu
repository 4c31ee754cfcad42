// restore_naive: back to bfloat16, one element per thread: a code times the scale of its group.
//
// A warp loads 32 bytes and stores 64. Where a group is a row, its scale is one word for all threads of the row; each
// element costs a division, which finds the group of its column. Expect a small part of the roof: too few bytes in
// flight.

#include "codes.cuh"

#ifndef KIND
#define KIND E4m3
#endif
#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void __launch_bounds__(BLOCK)
    restore_naive(bfloat16* __restrict__ out, const unsigned char* __restrict__ codes, const float* __restrict__ scales,
                  int rows, int n, int group) {
    const unsigned pieces = (n + BLOCK - 1) / BLOCK;
    const unsigned row = blockIdx.x / pieces;
    const int column = blockIdx.x % pieces * BLOCK + threadIdx.x;
    if (column < n) {
        const size_t i = static_cast<size_t>(row) * n + column;
        const size_t groups = (n + group - 1) / group;
        out[i] = __float2bfloat16(KIND::value(codes[i]) * scales[row * groups + column / group]);
    }
}
