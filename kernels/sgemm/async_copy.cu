// async_copy: a ring of tiles, filled by copies that go from device to shared memory past the registers.
//
// Against warp_tiled: a tile is requested two tiles before it is multiplied, by copies that need no register and no
// later write instruction, and 16 k's pass between two barriers. One barrier a tile serves two ends: the tile that
// has arrived is there for all, and the slot of the tile before it is free for the next copies. Copies of 16 bytes
// cannot turn A around, so A's tile stays row by row and a thread reads four k's of a row at once: as many reads as
// before. Rows of A's tile are 4 floats longer than needed; with its rows spaced by 4, a warp's reads of A meet no
// bank twice.
//
// Launch: 256 threads, grid (ceil(N / 256), ceil(M / 128)), dynamic shared memory SLOTS * FLOATS_OF_SLOT * 4 bytes.

#include "../common/async_copy.cuh"
#include "tile_access.cuh"

#define TILE_ROWS 128
#define TILE_COLS 256
#define TILE_DEPTH 16
#define SLOTS 3
#define THREADS 256
#define PITCH_OF_A (TILE_DEPTH + 4)
#define FLOATS_OF_A (TILE_ROWS * PITCH_OF_A)
#define FLOATS_OF_SLOT (FLOATS_OF_A + TILE_DEPTH * TILE_COLS)
#define WARPS_ACROSS 2
#define WARP_ROWS 32
#define WARP_COLS 128
#define LANES_ACROSS 8
#define LANES_DOWN (32 / LANES_ACROSS)
#define THREAD_ROWS 8
#define THREAD_COLS 16
#define COL_STEP (4 * LANES_ACROSS)
#define COPIES_OF_A (TILE_ROWS * TILE_DEPTH / 4 / THREADS)
#define COPIES_OF_B (TILE_DEPTH * TILE_COLS / 4 / THREADS)

static_assert(TILE_ROWS * TILE_COLS == THREADS * THREAD_ROWS * THREAD_COLS, "the threads cover the tile of C");
static_assert(WARP_ROWS * WARP_COLS == 32 * THREAD_ROWS * THREAD_COLS, "the lanes cover the sub-tile of their warp");

// As read4 and load4: four elements of a row, zeros for what lies outside. A source address stays valid where nothing
// is read.
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

// WHOLE: the tile lies inside C and K is a multiple of TILE_DEPTH.
template <bool WHOLE>
__device__ __forceinline__ void make_tile(float* __restrict__ C, const float* __restrict__ A,
                                          const float* __restrict__ B, int M, int N, int K, int first_row,
                                          int first_col, float* slots) {
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;

    const int thread_row = warp / WARPS_ACROSS * WARP_ROWS + lane / LANES_ACROSS;
    const int thread_col = warp % WARPS_ACROSS * WARP_COLS + lane % LANES_ACROSS * 4;

    const int tiles = (K + TILE_DEPTH - 1) / TILE_DEPTH;
    float sum[THREAD_ROWS][THREAD_COLS] = {};

    const auto copy_tile = [&](int tile) {
        float* tile_a = slots + tile % SLOTS * FLOATS_OF_SLOT;
        float* tile_b = tile_a + FLOATS_OF_A;
        const int first_k = tile * TILE_DEPTH;
#pragma unroll
        for (int n = 0; n < COPIES_OF_A; ++n) {
            const int e = thread + n * THREADS;
            const int row = e / (TILE_DEPTH / 4);
            const int k = e % (TILE_DEPTH / 4) * 4;
            copy4<WHOLE>(tile_a + row * PITCH_OF_A + k, A, first_row + row, first_k + k, M, K);
        }
#pragma unroll
        for (int n = 0; n < COPIES_OF_B; ++n) {
            const int e = thread + n * THREADS;
            const int k = e / (TILE_COLS / 4);
            const int col = e % (TILE_COLS / 4) * 4;
            copy4<WHOLE>(tile_b + k * TILE_COLS + col, B, first_k + k, first_col + col, K, N);
        }
    };
    const auto multiply_tile = [&](int tile) {
        const float* tile_a = slots + tile % SLOTS * FLOATS_OF_SLOT;
        const float* tile_b = tile_a + FLOATS_OF_A;
#pragma unroll 2  // 16 k's in a row would outgrow the instruction cache
        for (int first_k = 0; first_k < TILE_DEPTH; first_k += 4) {
            float a[THREAD_ROWS][4];
#pragma unroll
            for (int i = 0; i < THREAD_ROWS; ++i) {
                unpack(read4(tile_a + (thread_row + i * LANES_DOWN) * PITCH_OF_A + first_k), a[i]);
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                float b[THREAD_COLS];
#pragma unroll
                for (int j = 0; j < THREAD_COLS; j += 4) {
                    unpack(read4(tile_b + (first_k + k) * TILE_COLS + thread_col + j / 4 * COL_STEP), &b[j]);
                }
#pragma unroll
                for (int j = 0; j < THREAD_COLS; ++j) {
#pragma unroll
                    for (int i = 0; i < THREAD_ROWS; ++i) {
                        sum[i][j] += a[i][k] * b[j];
                    }
                }
            }
        }
    };

    // A group is committed for every tile, also for those past the end: the count of groups stays that of tiles.
    for (int tile = 0; tile < SLOTS - 1; ++tile) {
        if (tile < tiles) {
            copy_tile(tile);
        }
        copy_async_commit();
    }
    for (int tile = 0; tile < tiles; ++tile) {
        copy_async_wait<SLOTS - 2>();
        __syncthreads();
        if (tile + SLOTS - 1 < tiles) {
            copy_tile(tile + SLOTS - 1);
        }
        copy_async_commit();
        multiply_tile(tile);
    }

#pragma unroll
    for (int i = 0; i < THREAD_ROWS; ++i) {
        const int row = first_row + thread_row + i * LANES_DOWN;
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
