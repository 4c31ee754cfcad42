// double_buffer: the loads of the next tile are in flight while the current tile is multiplied.
//
// Against fake_double_buffer: the next tile is loaded into registers before the multiply-adds and written to its buffer
// after them. Nothing in between needs the loaded values, so about 500 multiply-adds per thread hide the latency of
// global memory, and one barrier per tile remains. The last tile is in buffer (tiles - 1) & 1, whatever the number of
// tiles. On Hopper expect two thirds of the FMA peak from 2048 on; below that there are too few blocks to fill the GPU.
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
double_buffer(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K) {
    __shared__ __align__(16) float tile_a[2][TILE_DEPTH][PITCH_OF_A];
    __shared__ __align__(16) float tile_b[2][TILE_DEPTH][TILE_COLS];

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

    float4 next_a;
    float4 next_b;
    float sum[8][8] = {};

    const auto load_tile = [&](int tile) {
        const int first_k = tile * TILE_DEPTH;
        if (whole) {
            next_a = read4(A + offset_of(first_row + row_of_a, first_k + k_of_a, K));
            next_b = read4(B + offset_of(first_k + k_of_b, first_col + col_of_b, N));
        } else {
            next_a = load4(A, first_row + row_of_a, first_k + k_of_a, M, K);
            next_b = load4(B, first_k + k_of_b, first_col + col_of_b, K, N);
        }
    };
    const auto write_tile = [&](int buffer) {
        tile_a[buffer][k_of_a + 0][row_of_a] = next_a.x;
        tile_a[buffer][k_of_a + 1][row_of_a] = next_a.y;
        tile_a[buffer][k_of_a + 2][row_of_a] = next_a.z;
        tile_a[buffer][k_of_a + 3][row_of_a] = next_a.w;
        write4(&tile_b[buffer][k_of_b][col_of_b], next_b);
    };
    const auto multiply_tile = [&](int buffer) {
#pragma unroll
        for (int k = 0; k < TILE_DEPTH; ++k) {
            float a[8];
            float b[8];
            unpack(read4(&tile_a[buffer][k][thread_row]), &a[0]);
            unpack(read4(&tile_a[buffer][k][thread_row + HALF_ROWS]), &a[4]);
            unpack(read4(&tile_b[buffer][k][thread_col]), &b[0]);
            unpack(read4(&tile_b[buffer][k][thread_col + HALF_COLS]), &b[4]);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    sum[i][j] += a[i] * b[j];
                }
            }
        }
    };

    const int tiles = (K + TILE_DEPTH - 1) / TILE_DEPTH;
    load_tile(0);
    write_tile(0);
    __syncthreads();
    for (int tile = 1; tile < tiles; ++tile) {
        load_tile(tile);
        multiply_tile((tile - 1) & 1);
        write_tile(tile & 1);
        __syncthreads();
    }
    multiply_tile((tiles - 1) & 1);

#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = first_row + thread_row + i / 4 * HALF_ROWS + i % 4;
        store4(C, row, first_col + thread_col, M, N, pack(&sum[i][0]));
        store4(C, row, first_col + thread_col + HALF_COLS, M, N, pack(&sum[i][4]));
    }
}
