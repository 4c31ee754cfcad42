// online: one pass over the keys; the running sums are rescaled whenever a larger score is found (online softmax).
//
// Against two_pass each score is computed once. When a new largest score is found, all earlier weights are too large by
// the same factor, so the sums need one multiplication and nothing is read again (Milakov and Gimelshein,
// arXiv:1805.02867). Expect up to twice the rate of two_pass at best: the products with the values, and their reads,
// are the same.
//
// Launch: 256 threads, grid (ceil(n / 8), heads).

#include "row_of_warp.cuh"

extern "C" __global__ void online(__nv_bfloat16* __restrict__ O, const __nv_bfloat16* __restrict__ Q,
                                  const __nv_bfloat16* __restrict__ K, const __nv_bfloat16* __restrict__ V, int n) {
    const int row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= n) {
        return;
    }
    const size_t head = static_cast<size_t>(blockIdx.y) * n * HEAD;
    const int keys = CAUSAL ? row + 1 : n;
    float query[OF_LANE], value[OF_LANE], out[OF_LANE] = {};
    load_columns(query, Q + head, row);
    float largest = -INFINITY, sum = 0.0f;
    for (int key = 0; key < keys; ++key) {
        const float score = score_of(query, K + head, key);
        const float larger = fmaxf(largest, score);
        const float shrink = power_of_two(largest - larger), weight = power_of_two(score - larger);
        largest = larger;
        sum = fmaf(sum, shrink, weight);
        load_columns(value, V + head, key);
#pragma unroll
        for (int i = 0; i < OF_LANE; ++i) {
            out[i] = fmaf(weight, value[i], out[i] * shrink);
        }
    }
    store_columns(O + head, row, out, 1.0f / sum);
}
