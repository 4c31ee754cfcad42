// tiled: tiles in shared memory and 8 x 8 elements of C per thread, so that each loaded value is used many times.
//
// Against naive: a block computes 128 x 128 elements of C and loads the A and B that it needs into shared memory, 8
// values of k at a time, so each loaded element of A or B is used for 128 elements of C. From shared memory a thread
// reads 8 + 8 values into registers and makes 64 products of them: 4 fused multiply-adds per value read, where naive
// has half of one. This is the largest step of the family. What still limits it: all accesses move one float at a time,
// and many lanes of a warp read different rows of the same shared memory bank, a bank conflict.
//
// Launch: 256 threads, grid (ceil(N / 128), ceil(M / 128)). At the edges tiles are filled up with zeros.

#include "tile_access.cuh"

#define TILE_ROWS 128
#define TILE_COLS 128
#define TILE_DEPTH 8
#define THREADS 256
#define THREAD_ROWS 8
#define THREAD_COLS 8

static_assert(TILE_ROWS * TILE_COLS == THREADS * THREAD_ROWS * THREAD_COLS, "the threads cover the tile of C");

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    tiled(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K) {
    __shared__ float tile_a[TILE_ROWS][TILE_DEPTH];
    __shared__ float tile_b[TILE_DEPTH][TILE_COLS];

    const int thread = threadIdx.x;
    const int first_row = blockIdx.y * TILE_ROWS;
    const int first_col = blockIdx.x * TILE_COLS;
    const int thread_row = thread / (TILE_COLS / THREAD_COLS) * THREAD_ROWS;
    const int thread_col = thread % (TILE_COLS / THREAD_COLS) * THREAD_COLS;

    float sum[THREAD_ROWS][THREAD_COLS] = {};
    for (int first_k = 0; first_k < K; first_k += TILE_DEPTH) {
#pragma unroll
        for (int n = 0; n < TILE_ROWS * TILE_DEPTH / THREADS; ++n) {
            const int e = thread + n * THREADS;
            const int row = e / TILE_DEPTH;
            const int k = e % TILE_DEPTH;
            tile_a[row][k] = load(A, first_row + row, first_k + k, M, K);
        }
#pragma unroll
        for (int n = 0; n < TILE_DEPTH * TILE_COLS / THREADS; ++n) {
            const int e = thread + n * THREADS;
            const int k = e / TILE_COLS;
            const int col = e % TILE_COLS;
            tile_b[k][col] = load(B, first_k + k, first_col + col, K, N);
        }
        __syncthreads();

#pragma unroll 2  // unrolling further would take the registers that a second block on the same SM needs
        for (int k = 0; k < TILE_DEPTH; ++k) {
            float a[THREAD_ROWS];
            float b[THREAD_COLS];
#pragma unroll
            for (int i = 0; i < THREAD_ROWS; ++i) {
                a[i] = tile_a[thread_row + i][k];
            }
#pragma unroll
            for (int j = 0; j < THREAD_COLS; ++j) {
                b[j] = tile_b[k][thread_col + j];
            }
#pragma unroll
            for (int i = 0; i < THREAD_ROWS; ++i) {
#pragma unroll
                for (int j = 0; j < THREAD_COLS; ++j) {
                    sum[i][j] += a[i] * b[j];
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < THREAD_ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < THREAD_COLS; ++j) {
            store(C, first_row + thread_row + i, first_col + thread_col + j, M, N, sum[i][j]);
        }
    }
}
