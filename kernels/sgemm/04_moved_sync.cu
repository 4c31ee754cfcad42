// moved_sync: the barrier at the end of an iteration moves to the next iteration, after its loads from global memory.
//
// Against vectorized two things change, and the second makes the first possible. The barrier after the multiply-adds
// moves to the beginning of the next iteration; and a tile is loaded into registers before that barrier and written to
// shared memory after it, where vectorized does both in one statement. Only the writes to shared memory have to wait
// until every warp has finished with the previous tile; the loads from global memory need not. A warp that finishes
// early starts its loads at once, and their latency passes while slower warps still multiply. The work and the number
// of barriers are the same; expect a small gain, because each warp still waits for its loads right after it has issued
// them.
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
    moved_sync(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K) {
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
        write4(&tile_a[row_of_a][k_of_a], next_a);
        write4(&tile_b[k_of_b][col_of_b], next_b);
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
    }

#pragma unroll
    for (int i = 0; i < THREAD_ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < THREAD_COLS; j += 4) {
            store4(C, first_row + thread_row + i, first_col + thread_col + j, M, N, pack(&sum[i][j]));
        }
    }
}
