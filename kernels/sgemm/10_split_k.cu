// split_k: for small problems: small tiles, with k divided among the warps of a block.
//
// Tiles of 128 and more give only 16 blocks for over a hundred SMs at 512 x 512. Here a block computes a small tile
// with eight warps; each warp has sums for the whole tile but takes only every eighth slice of k. So there are enough
// blocks for the GPU and enough warps to hide latency. A warp stages its slices in its own part of shared memory: in
// the loop it synchronizes its lanes only, never with another warp. At the end the eight partial tiles are added in
// shared memory in a fixed order, so that results are bitwise repeatable. Expect the best times of the family up to
// 768, and a loss beyond it, where a small tile loads more per multiply-add. The best tile is the one that gives
// slightly fewer tiles than the GPU has SMs.
//
// THREAD_ROWS x THREAD_COLS elements per thread (multiples of 4) give a tile of 4 THREAD_ROWS x 8 THREAD_COLS. Launch:
// 256 threads, grid (ceil(N / TILE_COLS), ceil(M / TILE_ROWS)).

#include "tile_access.cuh"

#ifndef THREAD_ROWS
#define THREAD_ROWS 8
#endif
#ifndef THREAD_COLS
#define THREAD_COLS 8
#endif
#ifndef SLICE_DEPTH
#define SLICE_DEPTH 8
#endif
#define WARPS 8
#define THREADS (32 * WARPS)
#define LANES_DOWN 4
#define LANES_ACROSS 8
#define TILE_ROWS (LANES_DOWN * THREAD_ROWS)
#define TILE_COLS (LANES_ACROSS * THREAD_COLS)
#define PITCH_OF_A (TILE_ROWS + 4)
#define ROW_STEP (4 * LANES_DOWN)
#define COL_STEP (4 * LANES_ACROSS)
#define LOADS_OF_A (TILE_ROWS * SLICE_DEPTH / 4 / 32)
#define LOADS_OF_B (SLICE_DEPTH * TILE_COLS / 4 / 32)
#define FLOATS_OF_WARP (SLICE_DEPTH * (PITCH_OF_A + TILE_COLS))
#define FLOATS_OF_STRIP (ROW_STEP * TILE_COLS)
#define SHARED_FLOATS (WARPS * (FLOATS_OF_WARP > FLOATS_OF_STRIP ? FLOATS_OF_WARP : FLOATS_OF_STRIP))

static_assert(THREAD_ROWS % 4 == 0 && THREAD_COLS % 4 == 0, "fragments are read as float4");
static_assert(TILE_ROWS * SLICE_DEPTH % 128 == 0, "the lanes load a slice of A as whole float4");
static_assert(SLICE_DEPTH * TILE_COLS % 128 == 0, "the lanes load a slice of B as whole float4");
static_assert(SHARED_FLOATS * 4 <= 48 * 1024, "static shared memory ends at 48 KB");

// WHOLE: the tile is inside C and K is a multiple of SLICE_DEPTH.
template <bool WHOLE>
__device__ __forceinline__ void make_tile(float* __restrict__ C, const float* __restrict__ A,
                                          const float* __restrict__ B, int M, int N, int K, int first_row,
                                          int first_col, float* shared) {
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;

    float* slice_a = shared + warp * FLOATS_OF_WARP;
    float* slice_b = slice_a + SLICE_DEPTH * PITCH_OF_A;
    const int thread_row = lane / LANES_ACROSS * 4;
    const int thread_col = lane % LANES_ACROSS * 4;

    float4 next_a[LOADS_OF_A];
    float4 next_b[LOADS_OF_B];
    float sum[THREAD_ROWS][THREAD_COLS] = {};

    // For whole tiles an address is a base plus a multiple of a row: a pointer for each load would take two more
    // registers.
    const float* rows_of_a = A + offset_of(first_row + lane / (SLICE_DEPTH / 4), lane % (SLICE_DEPTH / 4) * 4, K);
    const float* columns_of_b = B + first_col;
    const auto load_slice = [&](int slice) {
        const int first_k = slice * SLICE_DEPTH;
        const float* from_a = rows_of_a + first_k;
        const float* from_b = columns_of_b + offset_of(first_k, 0, N);
#pragma unroll
        for (int n = 0; n < LOADS_OF_A; ++n) {
            const int e = lane + n * 32;
            const int row = e / (SLICE_DEPTH / 4);
            const int k = e % (SLICE_DEPTH / 4) * 4;
            next_a[n] = WHOLE ? read4(from_a + offset_of(n * (128 / SLICE_DEPTH), 0, K))
                              : load4(A, first_row + row, first_k + k, M, K);
        }
#pragma unroll
        for (int n = 0; n < LOADS_OF_B; ++n) {
            const int e = lane + n * 32;
            const int k = e / (TILE_COLS / 4);
            const int col = e % (TILE_COLS / 4) * 4;
            next_b[n] = WHOLE ? read4(from_b + offset_of(k, col, N))
                              : load4(B, first_k + k, first_col + col, K, N);
        }
    };
    const auto write_slice = [&] {
#pragma unroll
        for (int n = 0; n < LOADS_OF_A; ++n) {
            const int e = lane + n * 32;
            float* to = slice_a + e % (SLICE_DEPTH / 4) * 4 * PITCH_OF_A + e / (SLICE_DEPTH / 4);
            to[0 * PITCH_OF_A] = next_a[n].x;
            to[1 * PITCH_OF_A] = next_a[n].y;
            to[2 * PITCH_OF_A] = next_a[n].z;
            to[3 * PITCH_OF_A] = next_a[n].w;
        }
#pragma unroll
        for (int n = 0; n < LOADS_OF_B; ++n) {
            write4(slice_b + (lane + n * 32) * 4, next_b[n]);
        }
    };
    const auto multiply_slice = [&] {
#pragma unroll
        for (int k = 0; k < SLICE_DEPTH; ++k) {
            float a[THREAD_ROWS];
            float b[THREAD_COLS];
#pragma unroll
            for (int i = 0; i < THREAD_ROWS; i += 4) {
                unpack(read4(slice_a + k * PITCH_OF_A + thread_row + i / 4 * ROW_STEP), &a[i]);
            }
#pragma unroll
            for (int j = 0; j < THREAD_COLS; j += 4) {
                unpack(read4(slice_b + k * TILE_COLS + thread_col + j / 4 * COL_STEP), &b[j]);
            }
#pragma unroll
            for (int i = 0; i < THREAD_ROWS; ++i) {
#pragma unroll
                for (int n = 0; n < THREAD_COLS; ++n) {
                    const int j = i % 2 ? THREAD_COLS - 1 - n : n;
                    sum[i][j] += a[i] * b[j];
                }
            }
        }
    };

    const int slices = (K + SLICE_DEPTH - 1) / SLICE_DEPTH;
    if (warp < slices) {
        load_slice(warp);
        write_slice();
        __syncwarp();
        for (int slice = warp + WARPS; slice < slices; slice += WARPS) {
            // Guarded loads need many registers: at an edge they come after the multiply-adds, which then need theirs
            // no more.
            if (WHOLE) {
                load_slice(slice);
            }
            multiply_slice();
            __syncwarp();
            if (!WHOLE) {
                load_slice(slice);
            }
            write_slice();
            __syncwarp();
        }
        multiply_slice();
    }

    // The warps' partial tiles are added 16 rows at a time: all eight tiles at once would not fit in shared memory.
#pragma unroll
    for (int strip = 0; strip < THREAD_ROWS / 4; ++strip) {
        __syncthreads();
        float* partial = shared + warp * FLOATS_OF_STRIP;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < THREAD_COLS; j += 4) {
                write4(partial + (thread_row + i) * TILE_COLS + thread_col + j / 4 * COL_STEP,
                       pack(&sum[strip * 4 + i][j]));
            }
        }
        __syncthreads();
        for (int e = thread; e < FLOATS_OF_STRIP / 4; e += THREADS) {
            float4 total = read4(shared + e * 4);
#pragma unroll
            for (int other = 1; other < WARPS; ++other) {
                const float4 part = read4(shared + other * FLOATS_OF_STRIP + e * 4);
                total.x += part.x;
                total.y += part.y;
                total.z += part.z;
                total.w += part.w;
            }
            const int row = first_row + strip * ROW_STEP + e / (TILE_COLS / 4);
            store4(C, row, first_col + e % (TILE_COLS / 4) * 4, M, N, total);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    split_k(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K) {
    __shared__ __align__(16) float shared[SHARED_FLOATS];

    const int first_row = blockIdx.y * TILE_ROWS;
    const int first_col = blockIdx.x * TILE_COLS;
    const bool whole = first_row + TILE_ROWS <= M && first_col + TILE_COLS <= N && K % SLICE_DEPTH == 0 && N % 4 == 0;
    if (whole) {
        make_tile<true>(C, A, B, M, N, K, first_row, first_col, shared);
    } else {
        make_tile<false>(C, A, B, M, N, K, first_row, first_col, shared);
    }
}
