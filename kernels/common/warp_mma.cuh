// Products of a warp (mma.sync, compute capability 8.0 and up) on tiles whose rows are 128 bytes along k.
//
// Such a row is eight pieces of 16 bytes; piece p of row r is stored at place p ^ (r % 8). Eight rows at the same k
// then occupy all 32 banks, so that neither the copies into a tile nor ldmatrix, which reads eight rows at a time, has
// bank conflicts, and no padding is needed.
#pragma once

#include "bf16.cuh"

#define DEPTH 64
#define ROW_BYTES 128

__device__ __forceinline__ unsigned place_of(unsigned row, unsigned piece) {
    return row * ROW_BYTES + (piece ^ row % 8) * 16;
}

// Loads four matrices of 8 x 8 elements; lanes 8 i to 8 i + 7 give the addresses of the rows of matrix i.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// Loads the same matrices, each transposed.
__device__ __forceinline__ void load_transposed(unsigned (&to)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// sums += a . b^T: 16 rows of a, 8 rows of b, 16 values of k.
__device__ __forceinline__ void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The sums of a warp: 16 DOWN rows by 8 ACROSS columns. Of each 16 x 8 tile a lane has two neighbouring columns in row
// lane / 4, and the same columns eight rows below.
template <int DOWN, int ACROSS>
struct WarpSums {
    float of[DOWN][ACROSS][4] = {};

    // Adds the product of one slice along k, of the tiles at these addresses, beginning at these rows.
    __device__ __forceinline__ void add_slice(unsigned tile_of_a, unsigned row, unsigned tile_of_b, unsigned col) {
        const unsigned lane = threadIdx.x % 32;
#pragma unroll
        for (unsigned piece = 0; piece < DEPTH / 8; piece += 2) {
            unsigned b[ACROSS / 2][4];
#pragma unroll
            for (int j = 0; j < ACROSS / 2; ++j) {
                load_matrices(b[j], tile_of_b + place_of(col + 16 * j + lane / 16 * 8 + lane % 8, piece + lane / 8 % 2));
            }
#pragma unroll
            for (int i = 0; i < DOWN; ++i) {
                unsigned a[4];
                load_matrices(a, tile_of_a + place_of(row + 16 * i + lane % 16, piece + lane / 16));
#pragma unroll
                for (int j = 0; j < ACROSS; ++j) {
                    multiply(of[i][j], a, b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }

    __device__ __forceinline__ void store(__nv_bfloat16* __restrict__ C, int row, int col, int M, int N) const {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < DOWN; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int to_row = row + 16 * i + 8 * half + lane / 4;
#pragma unroll
                for (int j = 0; j < ACROSS; ++j) {
                    store_pair(C, to_row, col + 8 * j + lane % 4 * 2, M, N, of[i][j][2 * half],
                               of[i][j][2 * half + 1]);
                }
            }
        }
    }
};
