// The loop over k of a tile: barrier_ring and stream_k.
//
// A scheduler issues one instruction per cycle, and the register file has two banks, even and odd registers: a
// multiply-add that reads two registers of one bank, not counting what the operand cache kept, takes up to one cycle
// more. ptxas assigns the registers; CUDA C++ has no say in it. This spelling is one from which it makes good code: 1108
// instructions and 58 conflicts for 1024 multiply-adds, where plainer code took 1118 and 89.
// - A slot is an offset in bytes, the same for all threads, from addresses that do not change: shared memory is
//   accessed at [register + uniform register + constant].
// - A thread's float4 of B lie in one row, so that one pointer serves all of them.
// - Loads from device memory have a predicate.
// - Fragments of B are read before those of A.
// None of them gives much alone. baselines/nvidia-h200/lab/sgemm-banks has what was tried, and counts the conflicts.
#pragma once

#include "ring_tile.cuh"

// After which k of a slice the next one is written: first A, then each float4 of B of a thread WRITE_STEP k later.
#ifndef WRITE_AFTER
#define WRITE_AFTER 0
#endif
#ifndef WRITE_STEP
#define WRITE_STEP 0
#endif
#define THREADS_OF_ROW (THREADS / SLICE_DEPTH)

static_assert(THREADS % SLICE_DEPTH == 0 && LOADS_OF_B * THREADS_OF_ROW * 4 == TILE_COLS, "a thread loads from one row");
static_assert(LOADS_OF_A == 1, "one float4 of A per thread");
static_assert(K_GROUPS == 1, "every warp sums over all of k");

// Adds to the sums the products of `slices` slices (at least 1) from `first_k` on.
// WHOLE: the tile lies inside C, K is a multiple of SLICE_DEPTH and rows of B are 16-byte aligned.
template <bool WHOLE>
__device__ __forceinline__ void multiply_slices(Sums& sum, Ring& ring, const float* __restrict__ A,
                                                const float* __restrict__ B, int M, int N, int K, int first_row,
                                                int first_col, int first_k, int slices) {
    const int thread = threadIdx.x;
    const Place place = place_of(thread);

    // Two threads take the two float4 of a 32-byte sector of A, the next two those of the next row.
    const int row_of_a = thread / 2 % TILE_ROWS;
    const int k_of_a = (thread / 2 / TILE_ROWS * 2 + thread % 2) * 4;
    const int k_of_b = thread / THREADS_OF_ROW;
    const auto col_of_b = [&](int n) { return (thread % THREADS_OF_ROW + n * THREADS_OF_ROW) * 4; };

    const float* from_a = A + offset_of(first_row + row_of_a, first_k + k_of_a, K);
    const float* from_b = B + offset_of(first_k + k_of_b, first_col + col_of_b(0), N);
    char* const memory = reinterpret_cast<char*>(ring.memory);
    char* const to_a = memory + 4 * (k_of_a * PITCH_OF_A + row_of_a);
    char* const to_b = memory + 4 * (FLOATS_OF_A + k_of_b * TILE_COLS + col_of_b(0));
    const char* const fragments_of_a = memory + 4 * place.row;
    const char* const fragments_of_b = memory + 4 * (FLOATS_OF_A + place.col);
    const auto offset_of_slot = [&](unsigned ahead) { return (ring.slice + ahead) % SLOTS * (4 * FLOATS_OF_SLOT); };
    const auto barrier = [&](unsigned ahead) {
        return reinterpret_cast<SplitBarrier*>(memory + 4 * (FLOATS_OF_A + FLOATS_OF_B) + offset_of_slot(ahead));
    };

    // In bytes and computed at each use: one multiply-add of addresses, and no register that holds it.
    const auto slice_of_b = [&] { return static_cast<long long>(N) * (4 * SLICE_DEPTH); };

    float4 next_a = {};
    float4 next_b[LOADS_OF_B] = {};
    float a[2][THREAD_ROWS] = {};
    float b[2][THREAD_COLS] = {};

    // Fetching asks for one slice after the other. At the edges of the matrices, where a load is guarded and takes many
    // registers, nothing is fetched ahead.
    const auto fetch_a = [&](bool wanted) {
        if (WHOLE) {
            read4_if(wanted, next_a, from_a);
        }
        from_a += SLICE_DEPTH;
    };
    const auto fetch_b = [&](int n, bool wanted) {
        if (WHOLE) {
            read4_if(wanted, next_b[n], from_b + n * 4 * THREADS_OF_ROW);
        }
        if (n + 1 == LOADS_OF_B) {
            from_b = reinterpret_cast<const float*>(reinterpret_cast<const char*>(from_b) + slice_of_b());
        }
    };
    const auto write_a = [&](unsigned slot, int slice) {
        const int k = first_k + slice * SLICE_DEPTH + k_of_a;
        const float4 piece = WHOLE ? next_a : load4(A, first_row + row_of_a, k, M, K);
        float* to = reinterpret_cast<float*>(to_a + slot);
        to[0 * PITCH_OF_A] = piece.x;
        to[1 * PITCH_OF_A] = piece.y;
        to[2 * PITCH_OF_A] = piece.z;
        to[3 * PITCH_OF_A] = piece.w;
    };
    const auto write_b = [&](int n, unsigned slot, int slice) {
        const int k = first_k + slice * SLICE_DEPTH + k_of_b;
        const float4 piece = WHOLE ? next_b[n] : load4(B, k, first_col + col_of_b(n), K, N);
        write4(reinterpret_cast<float*>(to_b + slot) + n * 4 * THREADS_OF_ROW, piece);
    };
    const auto read_fragments = [&](unsigned slot, int k) {
        const float* row_of_b = reinterpret_cast<const float*>(fragments_of_b + slot) + k * TILE_COLS;
        const float* row_of_a = reinterpret_cast<const float*>(fragments_of_a + slot) + k * PITCH_OF_A;
#pragma unroll
        for (int j = 0; j < THREAD_COLS; j += 4) {
            unpack(read4(row_of_b + j / 4 * COL_STEP), &b[k % 2][j]);
        }
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i += 4) {
            unpack(read4(row_of_a + i / 4 * ROW_STEP), &a[k % 2][i]);
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
        write_a(offset_of_slot(slice), slice);
#pragma unroll
        for (int n = 0; n < LOADS_OF_B; ++n) {
            write_b(n, offset_of_slot(slice), slice);
        }
        split_barrier_arrive(barrier(slice));
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
        const unsigned slot = offset_of_slot(0);
        const unsigned later_slot = offset_of_slot(2);
        split_barrier_wait(barrier(0), ring.slice / SLOTS);
        read_fragments(slot, 0);
        multiply(GROUP_DEPTH - 1);
#pragma unroll
        for (int k = 0; k + 1 < GROUP_DEPTH; ++k) {
            read_fragments(slot, k + 1);
            multiply(k);
            if (k == WRITE_AFTER) {
                write_a(later_slot, slice + 2);
                fetch_a(unfetched > 0);
            }
#pragma unroll
            for (int n = 0; n < LOADS_OF_B; ++n) {
                if (k == WRITE_AFTER + n * WRITE_STEP) {
                    write_b(n, later_slot, slice + 2);
                    fetch_b(n, unfetched > 0);
                }
            }
            if (k == WRITE_AFTER + (LOADS_OF_B - 1) * WRITE_STEP) {
                split_barrier_arrive(barrier(2));
            }
        }
        ++ring.slice;
        ++slice;
    } while (--unfetched > -3);
    multiply(GROUP_DEPTH - 1);
}
