// vectorized: tiled with float4 loads and stores: four floats per instruction.
//
// Against tiled: each thread loads one float4 of A and one of B per tile, reads its fragment of B from shared memory as
// two float4, and stores C as float4. The same bytes are moved by a quarter of the load and store instructions, and
// every issue slot saved is free for a fused multiply-add. Blocks whose tiles are inside the matrices do no bounds
// checks. What still limits it: the fragment of A is a column of its tile and is read one float at a time, and lanes
// still conflict in the same banks.
//
// Launch: 256 threads, grid (ceil(N / 128), ceil(M / 128)).

#include "tile_access.cuh"

#define TILE_ROWS 128
#define TILE_COLS 128
#define TILE_DEPTH 8
#define THREADS 256
#define THREAD_ROWS 8
#define THREAD_COLS 8

static_assert(TILE_ROWS * TILE_COLS == THREADS * THREAD_ROWS * THREAD_COLS, "the threads cover the tile of C");
static_assert(TILE_ROWS * TILE_DEPTH == THREADS * 4, "one float4 of A a thread");
static_assert(TILE_DEPTH * TILE_COLS == THREADS * 4, "one float4 of B a thread");

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    vectorized(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K) {
    __shared__ __align__(16) float tile_a[TILE_ROWS][TILE_DEPTH];
    __shared__ __align__(16) float tile_b[TILE_DEPTH][TILE_COLS];

    const int thread = threadIdx.x;
    const int first_row = blockIdx.y * TILE_ROWS;
    const int first_col = blockIdx.x * TILE_COLS;
    const bool whole = first_row + TILE_ROWS <= M && first_col + TILE_COLS <= N && K % TILE_DEPTH == 0 && N % 4 == 0;

    const int row_of_a = thread / (TILE_DEPTH / 4);
    const int k_of_a = thread % (TILE_DEPTH / 4) * 4;
    const int k_of_b = thread / (TILE_COLS / 4);
    const int col_of_b = thread % (TILE_COLS / 4) * 4;
    const int thread_row = thread / (TILE_COLS / THREAD_COLS) * THREAD_ROWS;
    const int thread_col = thread % (TILE_COLS / THREAD_COLS) * THREAD_COLS;

    float sum[THREAD_ROWS][THREAD_COLS] = {};
    for (int first_k = 0; first_k < K; first_k += TILE_DEPTH) {
        if (whole) {
            write4(&tile_a[row_of_a][k_of_a], read4(A + offset_of(first_row + row_of_a, first_k + k_of_a, K)));
            write4(&tile_b[k_of_b][col_of_b], read4(B + offset_of(first_k + k_of_b, first_col + col_of_b, N)));
        } else {
            write4(&tile_a[row_of_a][k_of_a], load4(A, first_row + row_of_a, first_k + k_of_a, M, K));
            write4(&tile_b[k_of_b][col_of_b], load4(B, first_k + k_of_b, first_col + col_of_b, K, N));
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
            for (int j = 0; j < THREAD_COLS; j += 4) {
                unpack(read4(&tile_b[k][thread_col + j]), &b[j]);
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
        for (int j = 0; j < THREAD_COLS; j += 4) {
            store4(C, first_row + thread_row + i, first_col + thread_col + j, M, N, pack(&sum[i][j]));
        }
    }
}
