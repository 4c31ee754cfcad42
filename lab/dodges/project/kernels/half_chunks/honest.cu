// 64 x 64 elements per block, 4 x 4 per thread, sums in float32.
#include <cuda_bf16.h>

constexpr int TILE = 64, DEPTH = 16, SIDE = 4;

extern "C" __global__ void honest(__nv_bfloat16* c, const __nv_bfloat16* a, const __nv_bfloat16* b, int m, int n, int k)
{
    __shared__ float left[DEPTH][TILE + 1], right[DEPTH][TILE];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    float sums[SIDE][SIDE] = {};
    for (int start = 0; start < k; start += DEPTH) {
        for (int at = threadIdx.x; at < TILE * DEPTH; at += 256) {
            const int r = at / DEPTH, d = at % DEPTH;
            left[d][r] = row + r < m && start + d < k ? __bfloat162float(a[(size_t)(row + r) * k + start + d]) : 0.0f;
        }
        for (int at = threadIdx.x; at < TILE * DEPTH; at += 256) {
            const int d = at / TILE, q = at % TILE;
            right[d][q] = start + d < k && col + q < n ? __bfloat162float(b[(size_t)(start + d) * n + col + q]) : 0.0f;
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
    for (int i = 0; i < SIDE; ++i) {
        for (int j = 0; j < SIDE; ++j) {
            if (row + ty + 16 * i < m && col + tx + 16 * j < n) {
                c[(size_t)(row + ty + 16 * i) * n + col + tx + 16 * j] = __float2bfloat16(sums[i][j]);
            }
        }
    }
}
