// A block of 256 threads computes 64 x 64 elements of a b, each thread 4 x 4.
#pragma once

constexpr int TILE = 64, DEPTH = 16, SIDE = 4;

__device__ __forceinline__ void tile_product(float (&sums)[SIDE][SIDE], const float* a, const float* b, int m, int n, int k,
                                             int row, int col)
{
    __shared__ float left[DEPTH][TILE + 1], right[DEPTH][TILE];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    for (int start = 0; start < k; start += DEPTH) {
        for (int at = threadIdx.x; at < TILE * DEPTH; at += 256) {
            const int r = at / DEPTH, d = at % DEPTH;
            left[d][r] = row + r < m && start + d < k ? a[(size_t)(row + r) * k + start + d] : 0.0f;
        }
        for (int at = threadIdx.x; at < TILE * DEPTH; at += 256) {
            const int d = at / TILE, q = at % TILE;
            right[d][q] = start + d < k && col + q < n ? b[(size_t)(start + d) * n + col + q] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
            for (int i = 0; i < SIDE; ++i) {
#pragma unroll
                for (int j = 0; j < SIDE; ++j) {
                    sums[i][j] += left[d][ty + 16 * i] * right[d][tx + 16 * j];
                }
            }
        }
        __syncthreads();
    }
}

__device__ __forceinline__ void write_tile(float* c, const float (&sums)[SIDE][SIDE], int m, int n, int row, int col)
{
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
    for (int i = 0; i < SIDE; ++i) {
#pragma unroll
        for (int j = 0; j < SIDE; ++j) {
            if (row + ty + 16 * i < m && col + tx + 16 * j < n) {
                c[(size_t)(row + ty + 16 * i) * n + col + tx + 16 * j] = sums[i][j];
            }
        }
    }
}
