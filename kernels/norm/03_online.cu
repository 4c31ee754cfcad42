// online: centre and sum in one pass, by merging the statistics of each element with those of all elements before it.
//
// Against warp_per_row a row is read twice instead of three times. When a larger element is found, softmax rescales the
// sum so far; layer norm updates its mean. This is more arithmetic per element (two exponentials, or a division), for
// which a warp has time while it waits for memory. Expect a gain where rows are too long for a cache, little where the
// second pass was served from a cache, and none for RMS norm, which has one sum only.

#include "statistics.cuh"

#ifndef NORM
#define NORM Softmax
#endif
#ifndef ELEMENT
#define ELEMENT bfloat16
#endif

extern "C" __global__ void online(ELEMENT* __restrict__ out, const ELEMENT* __restrict__ in,
                                  const ELEMENT* __restrict__ weight, const ELEMENT* __restrict__ bias, int rows, int n) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) {
        return;
    }
    in += static_cast<size_t>(row) * n;
    out += static_cast<size_t>(row) * n;
    Statistics statistics = nothing<NORM>();
    for (int i = threadIdx.x % 32; i < n; i += 32) {
        statistics = NORM::merge(statistics, statistics_of<NORM>(as_float(in[i])));
    }
    const Factors factors = NORM::factors(merged_lanes<NORM, 32>(statistics), n);
    for (int i = threadIdx.x % 32; i < n; i += 32) {
        store_rounded(out + i, normalised<NORM>(as_float(in[i]), factors, weight, bias, i));
    }
}
