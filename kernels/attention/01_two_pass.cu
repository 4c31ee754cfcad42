// two_pass: one warp per query and two passes over the keys, because each weight depends on the largest score.
//
// The first pass over the keys finds the largest score of the query; the second computes every score again, and adds up
// the weights and the weighted values. Scores are never stored: a matrix of scores would grow with the square of the
// length. Expect a small part of the FP32 rate: every query reads each key twice, and each score takes a sum over five
// shuffles.
//
// Launch: 256 threads, grid (ceil(n / 8), heads).

#include "row_of_warp.cuh"

extern "C" __global__ void two_pass(__nv_bfloat16* __restrict__ O, const __nv_bfloat16* __restrict__ Q,
                                    const __nv_bfloat16* __restrict__ K, const __nv_bfloat16* __restrict__ V, int n) {
    const int row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= n) {
        return;
    }
    const size_t head = static_cast<size_t>(blockIdx.y) * n * HEAD;
    const int keys = CAUSAL ? row + 1 : n;
    float query[OF_LANE], value[OF_LANE], out[OF_LANE] = {};
    load_columns(query, Q + head, row);
    float largest = -INFINITY;
    for (int key = 0; key < keys; ++key) {
        largest = fmaxf(largest, score_of(query, K + head, key));
    }
    float sum = 0.0f;
    for (int key = 0; key < keys; ++key) {
        const float weight = power_of_two(score_of(query, K + head, key) - largest);
        sum += weight;
        load_columns(value, V + head, key);
#pragma unroll
        for (int i = 0; i < OF_LANE; ++i) {
            out[i] = fmaf(weight, value[i], out[i]);
        }
    }
    store_columns(O + head, row, out, 1.0f / sum);
}
