// registers: a row is kept in registers, so that each element is read once and written once.
//
// Against vectors, THREADS threads have a whole row in registers, VECTORS vectors each, all loaded before the first is
// used. A short row takes a warp or a part of one, and a block has several rows. The launch is chosen by the length of
// the rows, so that a thread has 16 to 64 bytes in flight and several blocks are resident on an SM: while one waits for
// its row, others compute and store. Expect the speed of a copy until a row takes so many registers that one block
// fills the SM.
//
// A row of exactly THREADS * VECTORS vectors takes a path without bounds checks.

#include "vector_statistics.cuh"

#ifndef NORM
#define NORM Softmax
#endif
#ifndef ELEMENT
#define ELEMENT bfloat16
#endif
#ifndef THREADS
#define THREADS 128
#endif
#ifndef VECTORS
#define VECTORS 1
#endif
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1  // resident on an SM: unpacked vectors would take more registers than needed
#endif

constexpr int STEP = THREADS * PER_VECTOR<ELEMENT>;

__device__ __forceinline__ void normalise(ELEMENT* __restrict__ out, const ELEMENT* __restrict__ in,
                                          const ELEMENT* __restrict__ weight, const ELEMENT* __restrict__ bias, int n) {
    const int first = threadIdx.x % THREADS * PER_VECTOR<ELEMENT>;
    uint4 row[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        row[k] = load_vector(in, first + k * STEP, n);
    }
    const Statistics own = statistics_of<NORM, ELEMENT>(row, first, STEP, n);
    keep_packed(row);
    const Factors factors = NORM::factors(merged_threads<NORM, THREADS>(own), n);
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        store_normalised<NORM>(out, row[k], factors, weight, bias, first + k * STEP, n);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS)
    registers(ELEMENT* __restrict__ out, const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ weight,
              const ELEMENT* __restrict__ bias, int rows, int n) {
    const int row = blockIdx.x * (BLOCK / THREADS) + threadIdx.x / THREADS;
    in += static_cast<size_t>(row) * n;
    out += static_cast<size_t>(row) * n;
    // All lanes of a warp take part in its shuffles: past the last row they process a row of zero elements.
    if (n == VECTORS * STEP && (blockIdx.x + 1) * (BLOCK / THREADS) <= rows) {
        normalise(out, in, weight, bias, VECTORS * STEP);
    } else {
        normalise(out, in, weight, bias, row < rows ? n : 0);
    }
}
