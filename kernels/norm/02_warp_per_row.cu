// warp_per_row: one warp per row, with neighbouring lanes on neighbouring elements; shuffles combine the lanes'
// results.
//
// Against naive a warp reads whole sectors, and there are 32 times as many threads. It needs no barrier, because the
// lanes of a warp synchronize at each shuffle. Each element is still read three times, at best from a cache the second
// and third time. Expect many times the rate of naive, limited by 2 or 4 bytes per load and by the passes.

#include "statistics.cuh"

#ifndef NORM
#define NORM Softmax
#endif
#ifndef ELEMENT
#define ELEMENT bfloat16
#endif

extern "C" __global__ void warp_per_row(ELEMENT* __restrict__ out, const ELEMENT* __restrict__ in,
                                        const ELEMENT* __restrict__ weight, const ELEMENT* __restrict__ bias, int rows,
                                        int n) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    if (row >= rows) {
        return;
    }
    in += static_cast<size_t>(row) * n;
    out += static_cast<size_t>(row) * n;
    float folded = NORM::START;
    for (int i = lane; i < n; i += 32) {
        folded = NORM::fold(folded, as_float(in[i]));
    }
    float count = (n - lane + 31) / 32;
    const Statistics of_lane = {0.0f, NORM::centre(folded, count), count};
    const float centre = merged_lanes<NORM, 32>(of_lane).centre;
    float sum = 0.0f;
    for (int i = lane; i < n; i += 32) {
        sum += NORM::term(as_float(in[i]), centre);
    }
    const Statistics of_row = merged_lanes<NORM, 32>({sum, centre, count});
    const Factors factors = NORM::factors(of_row, n);
    for (int i = lane; i < n; i += 32) {
        store_rounded(out + i, normalised<NORM>(as_float(in[i]), factors, weight, bias, i));
    }
}
