// vectors: one block per row, in vectors of 16 bytes; the warps combine their results in shared memory.
//
// Against online a load has eight bfloat16 instead of one, so that enough bytes are in flight. Statistics are merged
// once per vector: its largest element is found, or its mean computed, before anything is summed. There is one barrier
// per row. The second read is served by L2 where the rows in process fit there. Expect most of what a kernel that reads
// each row twice can reach: two thirds of the roof where L2 does not help.

#include "vector_statistics.cuh"

#ifndef NORM
#define NORM Softmax
#endif
#ifndef ELEMENT
#define ELEMENT bfloat16
#endif
#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void __launch_bounds__(BLOCK)
    vectors(ELEMENT* __restrict__ out, const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ weight,
            const ELEMENT* __restrict__ bias, int, int n) {
    constexpr int STEP = BLOCK * PER_VECTOR<ELEMENT>;
    in += static_cast<size_t>(blockIdx.x) * n;
    out += static_cast<size_t>(blockIdx.x) * n;
    const int first = threadIdx.x * PER_VECTOR<ELEMENT>;
    Statistics statistics = nothing<NORM>();
    for (int i = first; i < n; i += STEP) {
        const uint4 vector[1] = {load_vector(in, i, n)};
        statistics = NORM::merge(statistics, statistics_of<NORM, ELEMENT>(vector, i, 0, n));
    }
    const Factors factors = NORM::factors(merged_threads<NORM, BLOCK>(statistics), n);
    for (int i = first; i < n; i += STEP) {
        store_normalised<NORM>(out, load_vector(in, i, n), factors, weight, bias, i, n);
    }
}
