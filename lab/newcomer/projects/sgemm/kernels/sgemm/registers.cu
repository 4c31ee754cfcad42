constexpr int TILE = 64, DEPTH = 8, SIDE = 4;

// A block of 16 x 16 threads computes 64 x 64 elements, each thread 4 x 4.
__global__ void registers(float* c, const float* a, const float* b, int m, int n, int k)
{
    __shared__ float left[DEPTH][TILE], right[DEPTH][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * 16 + tx;
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    float sums[SIDE][SIDE] = {};
    for (int start = 0; start < k; start += DEPTH) {
        for (int at = thread; at < TILE * DEPTH; at += 256) {
            const int r = at / DEPTH, d = at % DEPTH;
            left[d][r] = row + r < m && start + d < k ? a[(size_t)(row + r) * k + start + d] : 0;
        }
        for (int at = thread; at < TILE * DEPTH; at += 256) {
            const int d = at / TILE, q = at % TILE;
            right[d][q] = start + d < k && col + q < n ? b[(size_t)(start + d) * n + col + q] : 0;
        }
        __syncthreads();
        for (int d = 0; d < DEPTH; ++d) {
            for (int i = 0; i < SIDE; ++i) {
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
                c[(size_t)(row + ty + 16 * i) * n + col + tx + 16 * j] = sums[i][j];
            }
        }
    }
}
