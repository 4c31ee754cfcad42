// The loop over k of a tile: when each slice is loaded, written to shared memory, read and multiplied.
//
// `Slices` says where slices come from, how they are written to the ring buffer and how they are read from it. There
// are two versions with the same members: offset_slices.cuh for barrier_ring and stream_k, pointer_slices.cuh for
// group_split.
#pragma once

#include "ring_tile.cuh"

// The values of k of a slice after which the next slice is written: first A, then each float4 of B that the thread has,
// WRITE_STEP values of k later.
#ifndef WRITE_AFTER
#define WRITE_AFTER 0
#endif
#ifndef WRITE_STEP
#define WRITE_STEP 0
#endif

static_assert(WRITE_AFTER + (LOADS_OF_B - 1) * WRITE_STEP + 1 < GROUP_DEPTH, "a slice is written within one round");

__device__ __forceinline__ void multiply(Sums& sum, const float (&a)[THREAD_ROWS], const float (&b)[THREAD_COLS]) {
#pragma unroll
    for (int j = 0; j < THREAD_COLS; ++j) {
#pragma unroll
        for (int n = 0; n < THREAD_ROWS; ++n) {
            const int i = j % 2 ? THREAD_ROWS - 1 - n : n;
            sum[i][j] += a[i] * b[j];
        }
    }
}

// Adds to the sums the products of the next `slices` slices (at least 1).
template <class Slices>
__device__ __forceinline__ void multiply_slices(Sums& sum, Ring& ring, Slices from, int slices) {
    float a[2][THREAD_ROWS] = {};
    float b[2][THREAD_COLS] = {};

#pragma unroll
    for (int slice = 0; slice < 2; ++slice) {
        from.fetch_a(slice < slices);
#pragma unroll
        for (int n = 0; n < LOADS_OF_B; ++n) {
            from.fetch_b(n, slice < slices);
        }
        from.write_a(from.slot(slice), slice);
#pragma unroll
        for (int n = 0; n < LOADS_OF_B; ++n) {
            from.write_b(n, from.slot(slice), slice);
        }
        split_barrier_arrive(from.barrier(slice));
    }
    from.fetch_a(2 < slices);
#pragma unroll
    for (int n = 0; n < LOADS_OF_B; ++n) {
        from.fetch_b(n, 2 < slices);
    }

    // A round multiplies the last k of the previous slice (zeros in the first round) while the first fragments of its
    // own slice are loaded, then all but the last k of its own slice.
    int slice = 0;
    int unfetched = slices - 3;  // -3 after the last round
#pragma unroll 1
    do {
        const auto slot = from.slot(0);
        const auto later_slot = from.slot(2);
        split_barrier_wait(from.barrier(0), ring.slice / SLOTS);
        from.read(slot, 0, a[0], b[0]);
        multiply(sum, a[(GROUP_DEPTH - 1) % 2], b[(GROUP_DEPTH - 1) % 2]);
#pragma unroll
        for (int k = 0; k + 1 < GROUP_DEPTH; ++k) {
            from.read(slot, k + 1, a[(k + 1) % 2], b[(k + 1) % 2]);
            multiply(sum, a[k % 2], b[k % 2]);
            if (k == WRITE_AFTER) {
                from.write_a(later_slot, slice + 2);
                from.fetch_a(unfetched > 0);
            }
#pragma unroll
            for (int n = 0; n < LOADS_OF_B; ++n) {
                // Not k == WRITE_AFTER + n * WRITE_STEP: for sm_100 NVRTC 13.4 then keeps a and b in memory.
                if (k - n * WRITE_STEP == WRITE_AFTER) {
                    from.write_b(n, later_slot, slice + 2);
                    from.fetch_b(n, unfetched > 0);
                }
            }
            if (k == WRITE_AFTER + (LOADS_OF_B - 1) * WRITE_STEP) {
                split_barrier_arrive(from.barrier(2));
            }
        }
        ++ring.slice;
        ++slice;
    } while (--unfetched > -3);
    multiply(sum, a[(GROUP_DEPTH - 1) % 2], b[(GROUP_DEPTH - 1) % 2]);
}
