// conflict_free: A transposed in shared memory and fragments split into 4 + 4, so that shared memory has no bank
// conflicts.
//
// Against moved_sync: A's tile is stored in shared memory as k x row, so a thread reads its 8 values of A as two float4
// and no longer one by one. Of a thread's 8 rows 4 are in the upper and 4 in the lower half of the tile, and its
// columns likewise: neighbouring threads then read neighbouring float4, and eight of them (as many as one shared memory
// access serves) cover the 32 banks once, whereas with 8 adjacent columns per thread every second access conflicts.
// Rows of the transposed tile are 4 floats longer than needed, so that the two threads that load one row of A write to
// different banks. Four reads of shared memory now feed 64 fused multiply-adds, instead of ten.
//
// Launch: 256 threads, grid (ceil(N / 128), ceil(M / 128)).

#include "tile_access.cuh"

#define TILE_ROWS 128
#define TILE_COLS 128
#define TILE_DEPTH 8
#define THREADS 256
#define PITCH_OF_A (TILE_ROWS + 4)
#define HALF_ROWS (TILE_ROWS / 2)
#define HALF_COLS (TILE_COLS / 2)

static_assert(HALF_ROWS / 4 * (HALF_COLS / 4) == THREADS, "a thread takes 4 x 4 elements of each quarter of the tile");
static_assert(TILE_ROWS * TILE_DEPTH == THREADS * 4, "one float4 of A a thread");
static_assert(TILE_DEPTH * TILE_COLS == THREADS * 4, "one float4 of B a thread");

extern "C" __global__ void __launch_bounds__(THREADS, 2)
conflict_free(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K) {
    __shared__ __align__(16) float tile_a[TILE_DEPTH][PITCH_OF_A];
    __shared__ __align__(16) float tile_b[TILE_DEPTH][TILE_COLS];

    const int thread = threadIdx.x;
    const int first_row = blockIdx.y * TILE_ROWS;
    const int first_col = blockIdx.x * TILE_COLS;
    const bool whole = first_row + TILE_ROWS <= M && first_col + TILE_COLS <= N && K % TILE_DEPTH == 0 && N % 4 == 0;

    const int row_of_a = thread / (TILE_DEPTH / 4);
    const int k_of_a = thread % (TILE_DEPTH / 4) * 4;
    const int k_of_b = thread / (TILE_COLS / 4);
    const int col_of_b = thread % (TILE_COLS / 4) * 4;
    const int thread_row = thread / (HALF_COLS / 4) * 4;
    const int thread_col = thread % (HALF_COLS / 4) * 4;

    float sum[8][8] = {};
    for (int first_k = 0; first_k < K; first_k += TILE_DEPTH) {
        float4 next_a;
        float4 next_b;
        if (whole) {
            next_a = read4(A + offset_of(first_row + row_of_a, first_k + k_of_a, K));
            next_b = read4(B + offset_of(first_k + k_of_b, first_col + col_of_b, N));
        } else {
            next_a = load4(A, first_row + row_of_a, first_k + k_of_a, M, K);
            next_b = load4(B, first_k + k_of_b, first_col + col_of_b, K, N);
        }
        __syncthreads();
        tile_a[k_of_a + 0][row_of_a] = next_a.x;
        tile_a[k_of_a + 1][row_of_a] = next_a.y;
        tile_a[k_of_a + 2][row_of_a] = next_a.z;
        tile_a[k_of_a + 3][row_of_a] = next_a.w;
        write4(&tile_b[k_of_b][col_of_b], next_b);
        __syncthreads();

#pragma unroll
        for (int k = 0; k < TILE_DEPTH; ++k) {
            float a[8];
            float b[8];
            unpack(read4(&tile_a[k][thread_row]), &a[0]);
            unpack(read4(&tile_a[k][thread_row + HALF_ROWS]), &a[4]);
            unpack(read4(&tile_b[k][thread_col]), &b[0]);
            unpack(read4(&tile_b[k][thread_col + HALF_COLS]), &b[4]);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    sum[i][j] += a[i] * b[j];
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = first_row + thread_row + i / 4 * HALF_ROWS + i % 4;
        store4(C, row, first_col + thread_col, M, N, pack(&sum[i][0]));
        store4(C, row, first_col + thread_col + HALF_COLS, M, N, pack(&sum[i][4]));
    }
}
