// wmma: tensor cores through the warp matrix functions of CUDA C++ (nvcuda::wmma).
//
// Against tiled: a warp multiplies fragments of 16 x 16 x 16 with one instruction, and shared memory has bfloat16 in
// half the bytes. The mapping of elements to a fragment's registers is unspecified, so fragments have to be loaded and
// stored by the library: rows are padded against bank conflicts, and the sums are converted to bfloat16 through shared
// memory. Expect several times the rate of tiled, with a wait at both barriers of each slice: nothing is loaded while
// the warps multiply.
//
// Launch: 256 threads, grid (ceil(N / 128), ceil(M / 128)).

#include <mma.h>

#include "../common/bf16.cuh"

#define SIDE 128
#define DEPTH 32
#define PITCH (DEPTH + 8)
#define WARP_ROWS 64
#define WARP_COLS 32

namespace matrix = nvcuda::wmma;

extern "C" __global__ void __launch_bounds__(256)
    wmma(__nv_bfloat16* __restrict__ C, const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, int M, int N, int K) {
    __shared__ __align__(16) __nv_bfloat16 tile_of_a[SIDE][PITCH];
    __shared__ __align__(16) __nv_bfloat16 tile_of_b[SIDE][PITCH];
    __shared__ __align__(16) float sums_of_warp[8][16][16 + 4];

    const int first_row = blockIdx.y * SIDE;
    const int first_col = blockIdx.x * SIDE;
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int row = warp / 4 * WARP_ROWS;
    const int col = warp % 4 * WARP_COLS;

    matrix::fragment<matrix::accumulator, 16, 16, 16, float> sums[WARP_ROWS / 16][WARP_COLS / 16];
#pragma unroll
    for (int i = 0; i < WARP_ROWS / 16; ++i) {
#pragma unroll
        for (int j = 0; j < WARP_COLS / 16; ++j) {
            matrix::fill_fragment(sums[i][j], 0.0f);
        }
    }
    for (int k = 0; k < K; k += DEPTH) {
#pragma unroll
        for (int piece = threadIdx.x; piece < SIDE * DEPTH / 8; piece += 256) {
            const int loaded_row = piece / (DEPTH / 8);
            const int loaded_k = piece % (DEPTH / 8) * 8;
            *reinterpret_cast<uint4*>(&tile_of_a[loaded_row][loaded_k]) =
                load_eight(A, first_row + loaded_row, M, k + loaded_k, K);
            *reinterpret_cast<uint4*>(&tile_of_b[loaded_row][loaded_k]) =
                load_eight(B, first_col + loaded_row, N, k + loaded_k, K);
        }
        __syncthreads();
#pragma unroll
        for (int depth = 0; depth < DEPTH; depth += 16) {
            matrix::fragment<matrix::matrix_b, 16, 16, 16, __nv_bfloat16, matrix::col_major> b[WARP_COLS / 16];
#pragma unroll
            for (int j = 0; j < WARP_COLS / 16; ++j) {
                matrix::load_matrix_sync(b[j], &tile_of_b[col + 16 * j][depth], PITCH);
            }
#pragma unroll
            for (int i = 0; i < WARP_ROWS / 16; ++i) {
                matrix::fragment<matrix::matrix_a, 16, 16, 16, __nv_bfloat16, matrix::row_major> a;
                matrix::load_matrix_sync(a, &tile_of_a[row + 16 * i][depth], PITCH);
#pragma unroll
                for (int j = 0; j < WARP_COLS / 16; ++j) {
                    matrix::mma_sync(sums[i][j], a, b[j], sums[i][j]);
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < WARP_ROWS / 16; ++i) {
#pragma unroll
        for (int j = 0; j < WARP_COLS / 16; ++j) {
            matrix::store_matrix_sync(&sums_of_warp[warp][0][0], sums[i][j], 16 + 4, matrix::mem_row_major);
            __syncwarp();
            const float* const eight = &sums_of_warp[warp][lane / 2][lane % 2 * 8];
            const int to_row = first_row + row + 16 * i + lane / 2;
            const int to_col = first_col + col + 16 * j + lane % 2 * 8;
            if (to_row < M && to_col < N) {
                *reinterpret_cast<uint4*>(C + static_cast<size_t>(to_row) * N + to_col) =
                    make_uint4(pack_bf16(eight[0], eight[1]), pack_bf16(eight[2], eight[3]),
                               pack_bf16(eight[4], eight[5]), pack_bf16(eight[6], eight[7]));
            }
            __syncwarp();
        }
    }
}
