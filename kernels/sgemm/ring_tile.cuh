// A block's tile of C over a range of k, with a ring buffer of slots; barrier_ring, group_split and stream_k share it.
// They differ in which tile and which range of k a block takes, and in what becomes of its sums. The loop over k is in
// ring_loop.cuh.
//
// A slice is SLICE_DEPTH values of k: a transposed tile of A, and a tile of B. A slot has one slice, and the barrier
// that tells when the slice is complete. While slice n is multiplied, slice n + 2 is written to its slot and slice n +
// 3 is being loaded into registers. A thread arrives as soon as it has written its part and waits two slices later,
// when the other threads have long arrived: in practice no warp waits at a barrier, and warps may be up to most of a
// slice apart. The same barrier shows when a slot is free. A thread that has seen slice n complete knows that all
// threads have begun slice n - 2, and so have finished reading slice n - 3. Slice n + 2 uses the slot of slice n + 2 -
// SLOTS, which is n - 3 or earlier.
//
// Multiply-adds run down one column of a thread's sums and up the next: each takes one new operand and finds the other
// in the operand cache, so that it reads two registers, its sum and the new operand. The two banks of the register file
// deliver two per cycle. If every column began at the top, one multiply-add in eight would need three.
#pragma once

#include "../common/split_barrier.cuh"
#include "tile_access.cuh"

#ifndef THREAD_ROWS
#define THREAD_ROWS 8
#endif
#ifndef THREAD_COLS
#define THREAD_COLS 16
#endif
#ifndef WARPS_DOWN
#define WARPS_DOWN 4
#endif
#ifndef WARPS_ACROSS
#define WARPS_ACROSS 2
#endif
#ifndef K_GROUPS
#define K_GROUPS 1
#endif
#ifndef GROUP_DEPTH
#define GROUP_DEPTH 8
#endif
#define SLOTS 8
#define LANES_DOWN 4
#define LANES_ACROSS 8
#define GROUP_WARPS (WARPS_DOWN * WARPS_ACROSS)
#define THREADS (32 * GROUP_WARPS * K_GROUPS)
#define TILE_ROWS (THREAD_ROWS * LANES_DOWN * WARPS_DOWN)
#define TILE_COLS (THREAD_COLS * LANES_ACROSS * WARPS_ACROSS)
#define SLICE_DEPTH (GROUP_DEPTH * K_GROUPS)
#define PITCH_OF_A (TILE_ROWS + 4)
#define FLOATS_OF_A (SLICE_DEPTH * PITCH_OF_A)
#define FLOATS_OF_B (SLICE_DEPTH * TILE_COLS)
#define FLOATS_OF_SLOT (FLOATS_OF_A + FLOATS_OF_B + 4)
#define ROW_STEP (4 * LANES_DOWN)
#define COL_STEP (4 * LANES_ACROSS)
#define QUADS_OF_A (TILE_ROWS * SLICE_DEPTH / 4)
#define QUADS_OF_B (SLICE_DEPTH * TILE_COLS / 4)
#define LOADS_OF_A (QUADS_OF_A / THREADS)
#define LOADS_OF_B (QUADS_OF_B / THREADS)

static_assert(THREAD_ROWS % 4 == 0 && THREAD_COLS % 4 == 0, "fragments are read as float4");
static_assert(QUADS_OF_A % THREADS == 0 && QUADS_OF_B % THREADS == 0, "the threads load a slice as whole float4");
static_assert(GROUP_DEPTH % 2 == 0, "fragments alternate between two sets of registers across slices");
static_assert(SLOTS >= 5 && (SLOTS & (SLOTS - 1)) == 0, "slice n + 2 takes a slot that slice n - 3 has left");

using Sums = float[THREAD_ROWS][THREAD_COLS];

// Positions of a thread's sums in the block's tile. Sum (i, j) is element (row + i / 4 * ROW_STEP + i % 4, col + j / 4
// * COL_STEP + j % 4). The eight lanes whose float4 shared memory serves together read eight neighbouring float4 of B
// and one of A.
struct Place {
    int row;
    int col;
    int group;  // which of the K_GROUPS parts of a slice the thread's warp multiplies
};

__device__ __forceinline__ Place place_of(int thread) {
    const int lane = thread % 32;
    const int warp = thread / 32 % GROUP_WARPS;
    return {warp % WARPS_DOWN * (THREAD_ROWS * LANES_DOWN) + lane / LANES_ACROSS * 4,
            warp / WARPS_DOWN * (THREAD_COLS * LANES_ACROSS) + lane % LANES_ACROSS * 4, thread / 32 / GROUP_WARPS};
}

// A ring of slots in shared memory; `slice` counts the slices that have passed through it.
struct Ring {
    float* memory;
    unsigned slice;

    // The slot of the slice that is `ahead` slices after the next one.
    __device__ __forceinline__ float* slot(unsigned ahead) const {
        return memory + (slice + ahead) % SLOTS * FLOATS_OF_SLOT;
    }
    __device__ __forceinline__ SplitBarrier* barrier(unsigned ahead) const {
        return reinterpret_cast<SplitBarrier*>(slot(ahead) + FLOATS_OF_A + FLOATS_OF_B);
    }
};

// All threads of the block have to call it, once.
__device__ __forceinline__ Ring new_ring(float* memory) {
    const Ring ring = {memory, 0};
    if (threadIdx.x < SLOTS) {
        split_barrier_init(ring.barrier(threadIdx.x), THREADS);
    }
    __syncthreads();
    return ring;
}

// Retires a ring: its memory is ordinary shared memory again. All threads of the block have to call it, once.
__device__ __forceinline__ float* retired(const Ring& ring) {
    __syncthreads();
    if (threadIdx.x < SLOTS) {
        split_barrier_retire(ring.barrier(threadIdx.x));
    }
    __syncthreads();
    return ring.memory;
}

// In bytes and computed at each use: one multiply-add per address, and no register for the step.
__device__ __forceinline__ const float* next_slice_of_b(const float* from, int N) {
    return reinterpret_cast<const float*>(reinterpret_cast<const char*>(from) +
                                          static_cast<long long>(N) * (4 * SLICE_DEPTH));
}

// Four values of k of one row of A, transposed: one below the other.
__device__ __forceinline__ void write_column(float* to, float4 piece) {
    to[0 * PITCH_OF_A] = piece.x;
    to[1 * PITCH_OF_A] = piece.y;
    to[2 * PITCH_OF_A] = piece.z;
    to[3 * PITCH_OF_A] = piece.w;
}

// The fragments that the thread needs of one k of a slice.
__device__ __forceinline__ void read_a(const float* from, float* into) {
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i += 4) {
        unpack(read4(from + i / 4 * ROW_STEP), into + i);
    }
}

__device__ __forceinline__ void read_b(const float* from, float* into) {
#pragma unroll
    for (int j = 0; j < THREAD_COLS; j += 4) {
        unpack(read4(from + j / 4 * COL_STEP), into + j);
    }
}

// Every round of a barrier has to complete before the next one begins. Between two calls of multiply_slices all threads
// therefore also wait for the two slots past the last slice, which were filled with arbitrary values and are never
// read.
__device__ __forceinline__ void see_through(Ring& ring) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        split_barrier_wait(ring.barrier(0), ring.slice / SLOTS);
        ++ring.slice;
    }
}

// Four sums about to be stored. A float4 store needs four consecutive registers; adding zero copies the values to other
// registers, so that the sums themselves can be in the banks that suit the loop.
__device__ __forceinline__ float4 detached(const float* sums) {
    return make_float4(sums[0] + 0.0f, sums[1] + 0.0f, sums[2] + 0.0f, sums[3] + 0.0f);
}

__device__ __forceinline__ void store_sums(const Sums& sum, float* __restrict__ C, int M, int N, int first_row,
                                           int first_col) {
    const Place place = place_of(threadIdx.x);
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; ++i) {
        const int row = first_row + place.row + i / 4 * ROW_STEP + i % 4;
#pragma unroll
        for (int j = 0; j < THREAD_COLS; j += 4) {
            store4(C, row, first_col + place.col + j / 4 * COL_STEP, M, N, detached(&sum[i][j]));
        }
    }
}

__device__ __forceinline__ bool is_whole(int M, int N, int K, int first_row, int first_col) {
    return first_row + TILE_ROWS <= M && first_col + TILE_COLS <= N && K % SLICE_DEPTH == 0 && N % 4 == 0;
}
