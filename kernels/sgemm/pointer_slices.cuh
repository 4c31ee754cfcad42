// Slices of k for ring_loop.cuh, with k divided among groups of warps; used by group_split.
//
// It does what offset_slices.cuh does, written in the way from which ptxas generates fast code for K_GROUPS 2: a slot
// is a pointer, and a load from global memory is behind a branch. Written in the other way, or in any mixture of both,
// 1024 takes 55 to 57 microseconds instead of 52: fewer instructions, but a round of 0.6 microseconds is too short to
// hide loads that are issued later in it.
#pragma once

#include "ring_tile.cuh"

// WHOLE: the tile is inside C, K is a multiple of SLICE_DEPTH and rows of B are 16-byte aligned.
template <bool WHOLE>
struct PointerSlices {
    const Ring& ring;
    const float* __restrict__ A;
    const float* __restrict__ B;
    int M, N, K, first_row, first_col, first_k;
    int thread = threadIdx.x;
    Place place = place_of(thread);
    const float* from_a[LOADS_OF_A];
    const float* from_b[LOADS_OF_B];
    float4 next_a[LOADS_OF_A] = {};
    float4 next_b[LOADS_OF_B] = {};

    __device__ __forceinline__ PointerSlices(const Ring& ring, const float* __restrict__ A, const float* __restrict__ B,
                                             int M, int N, int K, int first_row, int first_col, int first_k)
        : ring(ring), A(A), B(B), M(M), N(N), K(K), first_row(first_row), first_col(first_col), first_k(first_k) {
#pragma unroll
        for (int n = 0; n < LOADS_OF_A; ++n) {
            from_a[n] = A + offset_of(first_row + row_of_a(n), first_k + k_of_a(n), K);
        }
#pragma unroll
        for (int n = 0; n < LOADS_OF_B; ++n) {
            from_b[n] = B + offset_of(first_k + k_of_b(n), first_col + col_of_b(n), N);
        }
    }

    // Two threads load the two float4 of a 32-byte sector of A, the next two threads those of the next row.
    __device__ __forceinline__ int row_of_a(int n) const {
        return (thread + n * THREADS) / 2 % TILE_ROWS;
    }
    __device__ __forceinline__ int k_of_a(int n) const {
        return ((thread + n * THREADS) / 2 / TILE_ROWS * 2 + (thread + n * THREADS) % 2) * 4;
    }
    __device__ __forceinline__ int k_of_b(int n) const {
        return (thread + n * THREADS) / (TILE_COLS / 4);
    }
    __device__ __forceinline__ int col_of_b(int n) const {
        return (thread + n * THREADS) % (TILE_COLS / 4) * 4;
    }

    __device__ __forceinline__ float* slot(unsigned ahead) const {
        return ring.slot(ahead);
    }
    __device__ __forceinline__ SplitBarrier* barrier(unsigned ahead) const {
        return ring.barrier(ahead);
    }
    __device__ __forceinline__ void fetch_a(bool wanted) {
#pragma unroll
        for (int n = 0; n < LOADS_OF_A; ++n) {
            if (WHOLE && wanted) {
                next_a[n] = read4(from_a[n]);
            }
            from_a[n] += SLICE_DEPTH;
        }
    }
    __device__ __forceinline__ void fetch_b(int n, bool wanted) {
        if (WHOLE && wanted) {
            next_b[n] = read4(from_b[n]);
        }
        from_b[n] = next_slice_of_b(from_b[n], N);
    }
    __device__ __forceinline__ void write_a(float* slot, int slice) const {
#pragma unroll
        for (int n = 0; n < LOADS_OF_A; ++n) {
            const int k = first_k + slice * SLICE_DEPTH + k_of_a(n);
            const float4 piece = WHOLE ? next_a[n] : load4(A, first_row + row_of_a(n), k, M, K);
            write_column(slot + k_of_a(n) * PITCH_OF_A + row_of_a(n), piece);
        }
    }
    __device__ __forceinline__ void write_b(int n, float* slot, int slice) const {
        const int k = first_k + slice * SLICE_DEPTH + k_of_b(n);
        const float4 piece = WHOLE ? next_b[n] : load4(B, k, first_col + col_of_b(n), K, N);
        write4(slot + FLOATS_OF_A + k_of_b(n) * TILE_COLS + col_of_b(n), piece);
    }
    __device__ __forceinline__ void read(const float* slot, int k, float* a, float* b) const {
        read_a(slot + (place.group * GROUP_DEPTH + k) * PITCH_OF_A + place.row, a);
        read_b(slot + FLOATS_OF_A + (place.group * GROUP_DEPTH + k) * TILE_COLS + place.col, b);
    }
};
