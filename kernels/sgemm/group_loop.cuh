// The loop over k of a tile whose slices are shared out among groups of warps.
//
// It does what ring_loop.cuh does, in the spelling from which ptxas makes fast code at K_GROUPS 2. In the other one it
// moves the fetches to the end of the round; a round of 0.6 microseconds is then too short to hide them: 55 instead of
// 52 microseconds at 1024.
#pragma once

#include "ring_tile.cuh"

// Adds to the sums the products of `slices` slices (at least 1) from `first_k` on.
// WHOLE: the tile lies inside C, K is a multiple of SLICE_DEPTH and rows of B are 16-byte aligned.
template <bool WHOLE>
__device__ __forceinline__ void multiply_slices(Sums& sum, Ring& ring, const float* __restrict__ A,
                                                const float* __restrict__ B, int M, int N, int K, int first_row,
                                                int first_col, int first_k, int slices) {
    const int thread = threadIdx.x;
    const Place place = place_of(thread);

    // Two threads take the two float4 of a 32-byte sector of A, the next two those of the next row.
    const auto row_of_a = [&](int n) { return (thread + n * THREADS) / 2 % TILE_ROWS; };
    const auto k_of_a = [&](int n) {
        return ((thread + n * THREADS) / 2 / TILE_ROWS * 2 + (thread + n * THREADS) % 2) * 4;
    };
    const auto k_of_b = [&](int n) { return (thread + n * THREADS) / (TILE_COLS / 4); };
    const auto col_of_b = [&](int n) { return (thread + n * THREADS) % (TILE_COLS / 4) * 4; };

    const float* from_a[LOADS_OF_A];
    const float* from_b[LOADS_OF_B];
#pragma unroll
    for (int n = 0; n < LOADS_OF_A; ++n) {
        from_a[n] = A + offset_of(first_row + row_of_a(n), first_k + k_of_a(n), K);
    }
#pragma unroll
    for (int n = 0; n < LOADS_OF_B; ++n) {
        from_b[n] = B + offset_of(first_k + k_of_b(n), first_col + col_of_b(n), N);
    }

    // In bytes and computed at each use: one multiply-add of addresses, and no register that holds it.
    const auto slice_of_b = [&] { return static_cast<long long>(N) * (4 * SLICE_DEPTH); };

    float4 next_a[LOADS_OF_A] = {};
    float4 next_b[LOADS_OF_B] = {};
    float a[2][THREAD_ROWS] = {};
    float b[2][THREAD_COLS] = {};

    // Fetching asks for one slice after the other. At the edges of the matrices, where a load is guarded and takes many
    // registers, nothing is fetched ahead.
    const auto fetch_a = [&](bool wanted) {
#pragma unroll
        for (int n = 0; n < LOADS_OF_A; ++n) {
            if (WHOLE && wanted) {
                next_a[n] = read4(from_a[n]);
            }
            from_a[n] += SLICE_DEPTH;
        }
    };
    const auto fetch_b = [&](int n, bool wanted) {
        if (WHOLE && wanted) {
            next_b[n] = read4(from_b[n]);
        }
        from_b[n] = reinterpret_cast<const float*>(reinterpret_cast<const char*>(from_b[n]) + slice_of_b());
    };
    const auto write_a = [&](float* slot, int slice) {
#pragma unroll
        for (int n = 0; n < LOADS_OF_A; ++n) {
            const int k = first_k + slice * SLICE_DEPTH + k_of_a(n);
            const float4 piece = WHOLE ? next_a[n] : load4(A, first_row + row_of_a(n), k, M, K);
            float* to = slot + k_of_a(n) * PITCH_OF_A + row_of_a(n);
            to[0 * PITCH_OF_A] = piece.x;
            to[1 * PITCH_OF_A] = piece.y;
            to[2 * PITCH_OF_A] = piece.z;
            to[3 * PITCH_OF_A] = piece.w;
        }
    };
    const auto write_b = [&](int n, float* slot, int slice) {
        const int k = first_k + slice * SLICE_DEPTH + k_of_b(n);
        const float4 piece = WHOLE ? next_b[n] : load4(B, k, first_col + col_of_b(n), K, N);
        write4(slot + FLOATS_OF_A + k_of_b(n) * TILE_COLS + col_of_b(n), piece);
    };
    const auto read_fragments = [&](const float* slot, int k) {
        const float* row_of_slice_a = slot + (place.group * GROUP_DEPTH + k) * PITCH_OF_A + place.row;
        const float* row_of_slice_b = slot + FLOATS_OF_A + (place.group * GROUP_DEPTH + k) * TILE_COLS + place.col;
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i += 4) {
            unpack(read4(row_of_slice_a + i / 4 * ROW_STEP), &a[k % 2][i]);
        }
#pragma unroll
        for (int j = 0; j < THREAD_COLS; j += 4) {
            unpack(read4(row_of_slice_b + j / 4 * COL_STEP), &b[k % 2][j]);
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

#pragma unroll
    for (int slice = 0; slice < 2; ++slice) {
        fetch_a(slice < slices);
#pragma unroll
        for (int n = 0; n < LOADS_OF_B; ++n) {
            fetch_b(n, slice < slices);
        }
        write_a(ring.slot(slice), slice);
#pragma unroll
        for (int n = 0; n < LOADS_OF_B; ++n) {
            write_b(n, ring.slot(slice), slice);
        }
        split_barrier_arrive(ring.barrier(slice));
    }
    fetch_a(2 < slices);
#pragma unroll
    for (int n = 0; n < LOADS_OF_B; ++n) {
        fetch_b(n, 2 < slices);
    }

    // A round multiplies the last k of the slice before (zeros in the first round) while the first fragments of its own
    // slice arrive, then all but its last k.
    int slice = 0;
    int unfetched = slices - 3;  // -3 after the last round
#pragma unroll 1
    do {
        const float* slot = ring.slot(0);
        float* later_slot = ring.slot(2);
        split_barrier_wait(ring.barrier(0), ring.slice / SLOTS);
        read_fragments(slot, 0);
        multiply(GROUP_DEPTH - 1);
        read_fragments(slot, 1);
        multiply(0);
        write_a(later_slot, slice + 2);
        fetch_a(unfetched > 0);
        write_b(0, later_slot, slice + 2);
        fetch_b(0, unfetched > 0);
        read_fragments(slot, 2);
        multiply(1);
#pragma unroll
        for (int n = 1; n < LOADS_OF_B; ++n) {
            write_b(n, later_slot, slice + 2);
            fetch_b(n, unfetched > 0);
        }
        split_barrier_arrive(ring.barrier(2));
#pragma unroll
        for (int k = 2; k + 1 < GROUP_DEPTH; ++k) {
            read_fragments(slot, k + 1);
            multiply(k);
        }
        ++ring.slice;
        ++slice;
    } while (--unfetched > -3);
    multiply(GROUP_DEPTH - 1);
}
