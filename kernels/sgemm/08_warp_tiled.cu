// warp_tiled: a sub-tile for each warp, twice the elements per thread, and fragments read one k ahead.
//
// Against double_buffer:
// - A thread computes 8 x 16 elements: 6 reads of shared memory feed 128 multiply-adds, so 4.5 % of the issue slots go
//   to reads instead of 6 %. The 128 sums and the fragments leave room for one block of 256 threads per SM.
// - A warp computes 32 x 128 elements with its lanes arranged 4 x 8: the eight lanes that shared memory serves together
//   read eight neighbouring float4 of B and one of A, and the whole warp needs four of A and eight of B.
// - With two warps per scheduler no other warp hides the latency of shared memory, so the fragments of k + 1 are read
//   while those of k are multiplied. The barrier is before the last k of a tile, whose multiply-adds hide the first
//   reads of the next tile.
// - Multiply-adds run down one column of a thread's sums and up the next: each takes one new operand and finds the
//   other in the operand cache, where the multiply-add before has left it. The register file has two banks, and every
//   read saved is one that cannot conflict.
// - A tile is loaded as soon as the registers of the previous tile have been written to shared memory: a whole round
//   passes before it is needed, however late in the round the compiler places the loads.
// - Blocks whose tile is whole have a loop of their own: a branch around the loads would delay both warps of a
//   scheduler. In this loop addresses are only incremented, never computed anew.
// Expect a gain on large problems, and a loss on small ones: with a tile of 128 x 256 most SMs have no block.
//
// Launch: 256 threads, grid (ceil(N / 256), ceil(M / 128)).

#include "tile_access.cuh"

#define TILE_ROWS 128
#define TILE_COLS 256
#define TILE_DEPTH 8
#define THREADS 256
#define PITCH_OF_A (TILE_ROWS + 4)
#define WARPS_ACROSS 2
#define WARP_ROWS 32
#define WARP_COLS 128
#define LANES_ACROSS 8
#define THREAD_ROWS 8
#define THREAD_COLS 16
#define ROW_STEP (4 * (32 / LANES_ACROSS))
#define COL_STEP (4 * LANES_ACROSS)

static_assert(TILE_ROWS * TILE_COLS == THREADS * THREAD_ROWS * THREAD_COLS, "the threads cover the tile of C");
static_assert(WARP_ROWS * WARP_COLS == 32 * THREAD_ROWS * THREAD_COLS, "the lanes cover the sub-tile of their warp");
static_assert(TILE_ROWS * TILE_DEPTH == THREADS * 4, "one float4 of A a thread");
static_assert(TILE_DEPTH * TILE_COLS == THREADS * 8, "two float4 of B a thread");
static_assert(TILE_DEPTH % 2 == 0, "fragments alternate between two sets of registers across tiles");

using BufferOfA = float[TILE_DEPTH][PITCH_OF_A];
using BufferOfB = float[TILE_DEPTH][TILE_COLS];

// WHOLE: the tile is inside C and K is a multiple of TILE_DEPTH.
template <bool WHOLE>
__device__ __forceinline__ void make_tile(float* __restrict__ C, const float* __restrict__ A,
                                          const float* __restrict__ B, int M, int N, int K, int first_row,
                                          int first_col, BufferOfA* tile_a, BufferOfB* tile_b) {
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;

    const int row_of_a = thread / (TILE_DEPTH / 4);
    const int k_of_a = thread % (TILE_DEPTH / 4) * 4;
    const int k_of_b = thread / (TILE_COLS / 4);
    const int col_of_b = thread % (TILE_COLS / 4) * 4;
    const int thread_row = warp / WARPS_ACROSS * WARP_ROWS + lane / LANES_ACROSS * 4;
    const int thread_col = warp % WARPS_ACROSS * WARP_COLS + lane % LANES_ACROSS * 4;

    float4 next_a;
    float4 next_b[2];
    float a[2][THREAD_ROWS];
    float b[2][THREAD_COLS];
    float sum[THREAD_ROWS][THREAD_COLS] = {};

    const float* from_a = A + offset_of(first_row + row_of_a, k_of_a, K);
    const float* from_b = B + offset_of(k_of_b, first_col + col_of_b, N);
    const float* from_lower_b = from_b + offset_of(TILE_DEPTH / 2, 0, N);
    const size_t tile_of_b = offset_of(TILE_DEPTH, 0, N);
    const int tiles = (K + TILE_DEPTH - 1) / TILE_DEPTH;

    // Loads the tiles one after the other; beyond the last one it loads nothing.
    const auto load_tile = [&](int tile) {
        if (WHOLE) {
            if (tile < tiles) {
                next_a = read4(from_a);
                next_b[0] = read4(from_b);
                next_b[1] = read4(from_lower_b);
            }
            from_a += TILE_DEPTH;
            from_b += tile_of_b;
            from_lower_b += tile_of_b;
        } else {
            const int first_k = tile * TILE_DEPTH;
            next_a = load4(A, first_row + row_of_a, first_k + k_of_a, M, K);
            next_b[0] = load4(B, first_k + k_of_b, first_col + col_of_b, K, N);
            next_b[1] = load4(B, first_k + k_of_b + TILE_DEPTH / 2, first_col + col_of_b, K, N);
        }
    };
    const auto write_tile = [&](int buffer) {
        tile_a[buffer][k_of_a + 0][row_of_a] = next_a.x;
        tile_a[buffer][k_of_a + 1][row_of_a] = next_a.y;
        tile_a[buffer][k_of_a + 2][row_of_a] = next_a.z;
        tile_a[buffer][k_of_a + 3][row_of_a] = next_a.w;
        write4(&tile_b[buffer][k_of_b][col_of_b], next_b[0]);
        write4(&tile_b[buffer][k_of_b + TILE_DEPTH / 2][col_of_b], next_b[1]);
    };
    const auto read_fragments = [&](int buffer, int k) {
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i += 4) {
            unpack(read4(&tile_a[buffer][k][thread_row + i / 4 * ROW_STEP]), &a[k % 2][i]);
        }
#pragma unroll
        for (int j = 0; j < THREAD_COLS; j += 4) {
            unpack(read4(&tile_b[buffer][k][thread_col + j / 4 * COL_STEP]), &b[k % 2][j]);
        }
    };
    const auto multiply = [&](int k) {
#pragma unroll
        for (int j = 0; j < THREAD_COLS; ++j) {
#pragma unroll
            for (int n = 0; n < THREAD_ROWS; ++n) {
                const int i = j % 2 ? THREAD_ROWS - 1 - n : n;
                sum[i][j] += a[k % 2][i] * b[k % 2][j];
            }
        }
    };
    const auto multiply_all_but_last = [&](int buffer) {
#pragma unroll
        for (int k = 0; k + 1 < TILE_DEPTH; ++k) {
            read_fragments(buffer, k + 1);
            multiply(k);
        }
    };

    load_tile(0);
    write_tile(0);
    load_tile(1);
    __syncthreads();
    read_fragments(0, 0);
    for (int tile = 1; tile < tiles; ++tile) {
        multiply_all_but_last((tile - 1) & 1);
        write_tile(tile & 1);
        load_tile(tile + 1);
        __syncthreads();
        read_fragments(tile & 1, 0);
        multiply(TILE_DEPTH - 1);
    }
    multiply_all_but_last((tiles - 1) & 1);
    multiply(TILE_DEPTH - 1);

#pragma unroll
    for (int i = 0; i < THREAD_ROWS; ++i) {
        const int row = first_row + thread_row + i / 4 * ROW_STEP + i % 4;
#pragma unroll
        for (int j = 0; j < THREAD_COLS; j += 4) {
            store4(C, row, first_col + thread_col + j / 4 * COL_STEP, M, N, pack(&sum[i][j]));
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    warp_tiled(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K) {
    __shared__ __align__(16) float tile_a[2][TILE_DEPTH][PITCH_OF_A];
    __shared__ __align__(16) float tile_b[2][TILE_DEPTH][TILE_COLS];

    const int first_row = blockIdx.y * TILE_ROWS;
    const int first_col = blockIdx.x * TILE_COLS;
    const bool whole = first_row + TILE_ROWS <= M && first_col + TILE_COLS <= N && K % TILE_DEPTH == 0 && N % 4 == 0;
    if (whole) {
        make_tile<true>(C, A, B, M, N, K, first_row, first_col, tile_a, tile_b);
    } else {
        make_tile<false>(C, A, B, M, N, K, first_row, first_col, tile_a, tile_b);
    }
}
