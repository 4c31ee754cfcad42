// async_copy: asynchronous copies from global to shared memory (cp.async) that bypass registers, three tiles ahead.
//
// Against warp_tiled: a tile is requested three tiles before it is multiplied, by copies that need no register while
// they are in flight. B's tile is copied to where it is read. A's tile has to be transposed, which copies of 16 bytes
// cannot do, while copies of 4 bytes, which could, take three times the passes through shared memory. So A is copied in
// the order of the threads that requested it, and each thread transposes its own piece, with one read and four writes,
// once its own copy has arrived: this needs no barrier. One barrier per tile then ensures three things: the transposed
// tile of A is complete, all copies of B's tile have arrived, and the slot of the previous tile is free. Expect no more
// than warp_tiled where registers already load one tile ahead: the transposition costs what the copies save. It pays on
// GPUs whose memory latency is longer than the time of one tile.
//
// Launch: 256 threads, grid (ceil(N / 256), ceil(M / 128)), dynamic shared memory RING_FLOATS * 4 bytes.

#include "../common/async_copy.cuh"
#include "tile_access.cuh"

#define TILE_ROWS 128
#define TILE_COLS 256
#define TILE_DEPTH 8
#define SLOTS 4
#define THREADS 256
#define PITCH_OF_A (TILE_ROWS + 4)
#define FLOATS_OF_A (TILE_ROWS * TILE_DEPTH)
#define FLOATS_OF_B (TILE_DEPTH * TILE_COLS)
#define FLOATS_OF_SLOT (FLOATS_OF_A + FLOATS_OF_B)
#define FLOATS_OF_TURNED (TILE_DEPTH * PITCH_OF_A)
#define RING_FLOATS (SLOTS * FLOATS_OF_SLOT + 2 * FLOATS_OF_TURNED)
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
static_assert(FLOATS_OF_A == THREADS * 4, "one float4 of A a thread");
static_assert(FLOATS_OF_B == THREADS * 8, "two float4 of B a thread");
static_assert(TILE_DEPTH % 2 == 0, "fragments alternate between two sets of registers across tiles");

// As read4 and load4: four elements of a row, zeros outside the matrix. Where nothing is read the source address stays
// valid.
template <bool WHOLE>
__device__ __forceinline__ void copy4(float* to, const float* matrix, int row, int col, int rows, int cols) {
    if (WHOLE) {
        copy_async<16>(to, matrix + offset_of(row, col, cols));
    } else if (cols % 4 == 0) {
        const bool inside = row < rows && col < cols;
        copy_async<16>(to, inside ? matrix + offset_of(row, col, cols) : matrix, inside ? 16 : 0);
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const bool inside = row < rows && col + i < cols;
            copy_async<4>(to + i, inside ? matrix + offset_of(row, col + i, cols) : matrix, inside ? 4 : 0);
        }
    }
}

// WHOLE: the tile is inside C and K is a multiple of TILE_DEPTH.
template <bool WHOLE>
__device__ __forceinline__ void make_tile(float* __restrict__ C, const float* __restrict__ A,
                                          const float* __restrict__ B, int M, int N, int K, int first_row,
                                          int first_col, float* slots) {
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    float* turned_tiles = slots + SLOTS * FLOATS_OF_SLOT;

    const int row_of_a = thread / (TILE_DEPTH / 4);
    const int k_of_a = thread % (TILE_DEPTH / 4) * 4;
    const int k_of_b = thread / (TILE_COLS / 4);
    const int col_of_b = thread % (TILE_COLS / 4) * 4;
    const int thread_row = warp / WARPS_ACROSS * WARP_ROWS + lane / LANES_ACROSS * 4;
    const int thread_col = warp % WARPS_ACROSS * WARP_COLS + lane % LANES_ACROSS * 4;

    const int tiles = (K + TILE_DEPTH - 1) / TILE_DEPTH;
    float a[2][THREAD_ROWS];
    float b[2][THREAD_COLS];
    float sum[THREAD_ROWS][THREAD_COLS] = {};

    // A group is committed for every tile, also beyond the last one, so that groups can be counted as tiles.
    const auto copy_tile = [&](int tile) {
        if (tile < tiles) {
            float* slot = slots + tile % SLOTS * FLOATS_OF_SLOT;
            const int first_k = tile * TILE_DEPTH;
            copy4<WHOLE>(slot + thread * 4, A, first_row + row_of_a, first_k + k_of_a, M, K);
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int k = k_of_b + n * (TILE_DEPTH / 2);
                copy4<WHOLE>(slot + FLOATS_OF_A + k * TILE_COLS + col_of_b, B, first_k + k, first_col + col_of_b, K, N);
            }
        }
        copy_async_commit();
    };
    const auto turn_piece_of_a = [&](int tile) {
        const float4 piece = read4(slots + tile % SLOTS * FLOATS_OF_SLOT + thread * 4);
        float* to = turned_tiles + tile % 2 * FLOATS_OF_TURNED + k_of_a * PITCH_OF_A + row_of_a;
        to[0 * PITCH_OF_A] = piece.x;
        to[1 * PITCH_OF_A] = piece.y;
        to[2 * PITCH_OF_A] = piece.z;
        to[3 * PITCH_OF_A] = piece.w;
    };
    const auto read_fragments = [&](int tile, int k) {
        const float* turned_a = turned_tiles + tile % 2 * FLOATS_OF_TURNED + k * PITCH_OF_A + thread_row;
        const float* row_of_b = slots + tile % SLOTS * FLOATS_OF_SLOT + FLOATS_OF_A + k * TILE_COLS + thread_col;
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i += 4) {
            unpack(read4(turned_a + i / 4 * ROW_STEP), &a[k % 2][i]);
        }
#pragma unroll
        for (int j = 0; j < THREAD_COLS; j += 4) {
            unpack(read4(row_of_b + j / 4 * COL_STEP), &b[k % 2][j]);
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
    const auto multiply_all_but_last = [&](int tile) {
#pragma unroll
        for (int k = 0; k + 1 < TILE_DEPTH; ++k) {
            read_fragments(tile, k + 1);
            multiply(k);
        }
    };

    for (int tile = 0; tile < SLOTS - 1; ++tile) {
        copy_tile(tile);
    }
    copy_async_wait<SLOTS - 2>();
    turn_piece_of_a(0);
    __syncthreads();
    read_fragments(0, 0);
    for (int tile = 1; tile < tiles; ++tile) {
        copy_tile(tile + SLOTS - 2);
        multiply_all_but_last(tile - 1);
        copy_async_wait<SLOTS - 2>();
        turn_piece_of_a(tile);
        __syncthreads();
        read_fragments(tile, 0);
        multiply(TILE_DEPTH - 1);
    }
    multiply_all_but_last(tiles - 1);
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
    async_copy(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K) {
    extern __shared__ __align__(16) float slots[];

    const int first_row = blockIdx.y * TILE_ROWS;
    const int first_col = blockIdx.x * TILE_COLS;
    const bool whole = first_row + TILE_ROWS <= M && first_col + TILE_COLS <= N && K % TILE_DEPTH == 0 && N % 4 == 0;
    if (whole) {
        make_tile<true>(C, A, B, M, N, K, first_row, first_col, slots);
    } else {
        make_tile<false>(C, A, B, M, N, K, first_row, first_col, slots);
    }
}
