// mma_sync: both products on tensor cores, with the weights passed from one to the other in registers.
//
// A warp has 16 queries and a block 64; all warps of a block share 64 keys and values at a time. Rounded to bfloat16,
// the sums of the first product are already in the lanes in which the second product needs its left operand. The
// largest score of a row is exchanged between four lanes once per 64 keys, not for every key. Expect many times the
// rate of online; loads still alternate with products, and products with exponentials.
//
// Launch: 128 threads, grid (ceil(n / 64), heads).

#include "../common/warp_mma.cuh"
#include "problem.cuh"

#define SIDE 64
#define THREADS 128

// The offset of piece `piece` of a row: 64 columns of all rows, then the next 64 columns.
__device__ __forceinline__ unsigned place_in_tile(unsigned row, unsigned piece) {
    return piece / 8 * SIDE * ROW_BYTES + place_of(row, piece % 8);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    mma_sync(__nv_bfloat16* __restrict__ O, const __nv_bfloat16* __restrict__ Q, const __nv_bfloat16* __restrict__ K,
             const __nv_bfloat16* __restrict__ V, int n) {
    __shared__ __align__(128) unsigned char tile_of_keys[SIDE * HEAD * 2];
    __shared__ __align__(128) unsigned char tile_of_values[SIDE * HEAD * 2];

    const unsigned keys_at = static_cast<unsigned>(__cvta_generic_to_shared(tile_of_keys));
    const unsigned values_at = static_cast<unsigned>(__cvta_generic_to_shared(tile_of_values));
    const size_t head = static_cast<size_t>(blockIdx.y) * n * HEAD;
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * SIDE + threadIdx.x / 32 * 16 + lane / 4;  // and the row 8 below it

    unsigned query[HEAD / 16][4];
#pragma unroll
    for (int i = 0; i < HEAD / 4; ++i) {
        const int at = row + i % 2 * 8;
        const int col = i / 4 * 16 + i / 2 % 2 * 8 + lane % 4 * 2;
        query[i / 4][i % 4] =
            at < n ? *reinterpret_cast<const unsigned*>(Q + head + static_cast<size_t>(at) * HEAD + col) : 0;
    }
    float out[HEAD / 8][4] = {};
    float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    const int end = CAUSAL ? min(n, static_cast<int>(blockIdx.x + 1) * SIDE) : n;
    for (int first = 0; first < end; first += SIDE) {
        __syncthreads();  // the previous tiles have been read
        for (int i = threadIdx.x; i < SIDE * HEAD / 8; i += THREADS) {
            const int at = i / (HEAD / 8), piece = i % (HEAD / 8);
            const unsigned place = place_in_tile(at, piece);
            *reinterpret_cast<uint4*>(tile_of_keys + place) = load_eight(K + head, first + at, n, piece * 8, HEAD);
            *reinterpret_cast<uint4*>(tile_of_values + place) = load_eight(V + head, first + at, n, piece * 8, HEAD);
        }
        __syncthreads();
        float score[SIDE / 8][4] = {};
#pragma unroll
        for (int step = 0; step < HEAD / 16; ++step) {
#pragma unroll
            for (int j = 0; j < SIDE / 16; ++j) {
                unsigned b[4];
                load_matrices(b, keys_at + place_in_tile(16 * j + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
                multiply(score[2 * j], query[step], b[0], b[1]);
                multiply(score[2 * j + 1], query[step], b[2], b[3]);
            }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float larger = largest[half];
#pragma unroll
            for (int i = 0; i < SIDE / 4; ++i) {
                float& found = score[i / 2][half * 2 + i % 2];
                const int key = first + i / 2 * 8 + lane % 4 * 2 + i % 2;
                const bool seen = key < n && (!CAUSAL || key <= row + half * 8);
                found = seen ? found * SCORE_FACTOR : -INFINITY;
                larger = fmaxf(larger, found);
            }
            larger = fmaxf(larger, __shfl_xor_sync(0xffffffff, larger, 1));
            larger = fmaxf(larger, __shfl_xor_sync(0xffffffff, larger, 2));
            const float shrink = power_of_two(largest[half] - larger);  // every row sees key 0, so `larger` is finite
            largest[half] = larger;
            sum[half] *= shrink;
#pragma unroll
            for (int i = 0; i < SIDE / 4; ++i) {
                float& found = score[i / 2][half * 2 + i % 2];
                found = power_of_two(found - larger);
                sum[half] += found;
            }
#pragma unroll
            for (int i = 0; i < HEAD / 4; ++i) {
                out[i / 2][half * 2 + i % 2] *= shrink;
            }
        }
#pragma unroll
        for (int step = 0; step < SIDE / 16; ++step) {
            const float(&left)[4] = score[2 * step], (&right)[4] = score[2 * step + 1];
            const unsigned weights[4] = {pack_bf16(left[0], left[1]), pack_bf16(left[2], left[3]),
                                         pack_bf16(right[0], right[1]), pack_bf16(right[2], right[3])};
#pragma unroll
            for (int j = 0; j < HEAD / 16; ++j) {
                unsigned b[4];
                load_transposed(b, values_at + place_in_tile(16 * step + lane % 16, 2 * j + lane / 16));
                multiply(out[2 * j], weights, b[0], b[1]);
                multiply(out[2 * j + 1], weights, b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        sum[half] += __shfl_xor_sync(0xffffffff, sum[half], 1);
        sum[half] += __shfl_xor_sync(0xffffffff, sum[half], 2);
        const float factor = 1.0f / sum[half];
#pragma unroll
        for (int j = 0; j < HEAD / 8; ++j) {
            store_pair(O + head, row + half * 8, j * 8 + lane % 4 * 2, n, HEAD, out[j][half * 2] * factor,
                       out[j][half * 2 + 1] * factor);
        }
    }
}
