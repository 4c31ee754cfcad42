// A block's tile of C over a range of k, fed by a ring of slots. barrier_ring, group_split and stream_k share it; they
// differ in which tile and which k a block takes, and in where its sums go.
//
// A slice is SLICE_DEPTH values of k: a tile of A, turned around, and a tile of B. A slot holds one slice and the
// barrier that says it is there. While slice n is multiplied, slice n + 2 is written to its slot and slice n + 3 is on
// its way to registers. A thread arrives as soon as it has written its part and waits two slices later, when the others
// have long arrived: nobody stands at a barrier, and warps may drift apart by most of a slice.
// The same barrier frees the slots. Who has seen slice n complete knows that everybody has begun slice n - 2, and so is
// done reading slice n - 3. Slice n + 2 takes the slot of slice n + 2 - SLOTS, which is no later than n - 3.
//
// Multiply-adds run down one column of a thread's sums and up the next: each takes one new operand and finds the other
// in the operand cache, so that it reads two registers, its sum and the new operand. The two banks of the register file
// deliver two a cycle. Were every column to begin at the top, one multiply-add in eight would need three.
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
#define BYTES_OF_SLICE (4 * (FLOATS_OF_A + FLOATS_OF_B))
#define FLOATS_OF_SLOT (FLOATS_OF_A + FLOATS_OF_B + 4)
#define BYTES_OF_SLOT (4 * FLOATS_OF_SLOT)
#define ROW_STEP (4 * LANES_DOWN)
#define COL_STEP (4 * LANES_ACROSS)
#define QUADS_OF_A (TILE_ROWS * SLICE_DEPTH / 4)
#define QUADS_OF_B (SLICE_DEPTH * TILE_COLS / 4)
#define LOADS_OF_A (QUADS_OF_A / THREADS)
#define LOADS_OF_B (QUADS_OF_B / THREADS)
#define THREADS_OF_ROW_OF_B (THREADS / SLICE_DEPTH)

static_assert(THREAD_ROWS % 4 == 0 && THREAD_COLS % 4 == 0, "fragments are read as float4");
static_assert(QUADS_OF_A % THREADS == 0 && QUADS_OF_B % THREADS == 0, "the threads load a slice as whole float4");
static_assert(THREADS % SLICE_DEPTH == 0 && TILE_COLS / 4 == LOADS_OF_B * THREADS_OF_ROW_OF_B, "a thread stays in a row of B");
static_assert(BYTES_OF_SLICE + sizeof(SplitBarrier) <= BYTES_OF_SLOT, "a slot holds a slice and its barrier");
static_assert(8 * THREADS <= BYTES_OF_SLICE, "a slot has room for two floats per thread");
static_assert(GROUP_DEPTH % 2 == 0, "fragments alternate between two sets of registers across slices");
static_assert(SLOTS >= 5 && (SLOTS & (SLOTS - 1)) == 0, "slice n + 2 takes a slot that slice n - 3 has left");

using Sums = float[THREAD_ROWS][THREAD_COLS];

// Where a thread's sums lie in the block's tile. Sum (i, j) is element (row + i / 4 * ROW_STEP + i % 4,
// col + j / 4 * COL_STEP + j % 4). The eight lanes that shared memory serves together read eight neighbouring float4
// of B and one of A.
struct Place {
    int row;
    int col;
    int group;  // which of the K_GROUPS shares of a slice the thread's warp multiplies
};

__device__ __forceinline__ Place place_of(int thread) {
    const int lane = thread % 32;
    const int warp = thread / 32 % GROUP_WARPS;
    return {warp % WARPS_DOWN * (THREAD_ROWS * LANES_DOWN) + lane / LANES_ACROSS * 4,
            warp / WARPS_DOWN * (THREAD_COLS * LANES_ACROSS) + lane % LANES_ACROSS * 4, thread / 32 / GROUP_WARPS};
}

// A ring of slots in shared memory; `slice` counts the slices that have gone round.
struct Ring {
    char* memory;
    unsigned slice;

    // Where the slot of the slice that comes `ahead` slices after the next one begins, in bytes.
    __device__ __forceinline__ unsigned slot(unsigned ahead) const {
        return (slice + ahead) % SLOTS * BYTES_OF_SLOT;
    }
    __device__ __forceinline__ SplitBarrier* barrier(unsigned ahead) const {
        return reinterpret_cast<SplitBarrier*>(memory + BYTES_OF_SLICE + slot(ahead));
    }
};

// Every thread of the block calls it, once.
__device__ __forceinline__ Ring new_ring(float* memory) {
    const Ring ring = {reinterpret_cast<char*>(memory), 0};
    if (threadIdx.x < SLOTS) {
        split_barrier_init(ring.barrier(threadIdx.x), THREADS);
    }
    __syncthreads();
    return ring;
}

// What is left of a ring is plain shared memory. Every thread of the block calls it, once.
__device__ __forceinline__ float* retired(const Ring& ring) {
    __syncthreads();
    if (threadIdx.x < SLOTS) {
        split_barrier_retire(ring.barrier(threadIdx.x));
    }
    __syncthreads();
    return reinterpret_cast<float*>(ring.memory);
}

#ifndef CPOS
#define CPOS 0
#endif
#ifndef BGAP
#define BGAP 1
#endif
#ifndef FL
#define FL 0
#endif
#ifndef VP
#define VP 0
#endif
#ifndef DET
#define DET 1
#endif
#ifndef ORD
#define ORD 0
#endif
#ifndef LV
#define LV 0
#endif
#ifndef GV
#define GV 0
#endif
#ifndef SV
#define SV 0
#endif
#ifndef FO
#define FO 0
#endif
#ifndef WK
#define WK 0
#endif
__device__ __forceinline__ float4 lab_lds(const char* from, int offset) {
#if LV
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3},[%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"((unsigned)__cvta_generic_to_shared(from) + offset));
    return v;
#else
    return *reinterpret_cast<const float4*>(from + offset);
#endif
}
__device__ __forceinline__ void lab_ldg(float4& v, const float* p, bool wanted) {
#ifdef PEAKGATE_EMULATED
    if (wanted) v = read4(p);
#else
    asm volatile("{\n.reg .pred p;\nsetp.gt.s32 p,%5,0;\n@p ld.global.nc.v4.f32 {%0,%1,%2,%3},[%4];\n}" : "+f"(v.x), "+f"(v.y), "+f"(v.z), "+f"(v.w) : "l"(p), "r"((int)wanted));
#endif
}
#ifndef PIN
#define PIN 3
#endif
__device__ __forceinline__ void round_trip(void* place, float& odd, float& even) {
#ifdef PEAKGATE_EMULATED
    float* pair = static_cast<float*>(place);
    pair[0] = odd;
    pair[1] = even;
    odd = pair[0];
    even = pair[1];
#else
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(place));
    unsigned long long pair;
    asm volatile("mov.b64 %0, {%1, %2};" : "=l"(pair) : "f"(odd), "f"(even));
    asm volatile("st.shared.b64 [%1], %0;\nld.shared.b64 %0, [%1];" : "+l"(pair) : "r"(address) : "memory");
    asm volatile("mov.b64 {%0, %1}, %2;" : "=f"(odd), "=f"(even) : "l"(pair));
#endif
}
__device__ __forceinline__ void pin(Sums& sum, void* place) {
#pragma unroll
    for (int j = 0; j < THREAD_COLS; ++j) {
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i += 2) {
            round_trip(place, sum[i + 1][j], sum[i][j]);
        }
    }
}

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
    const int k_of_b = thread / THREADS_OF_ROW_OF_B;
    const auto col_of_b = [&](int n) { return (thread % THREADS_OF_ROW_OF_B + n * THREADS_OF_ROW_OF_B) * 4; };

    const float* from_a[LOADS_OF_A];
    const float* from_b = B + offset_of(first_k + k_of_b, first_col + col_of_b(0), N);
#pragma unroll
    for (int n = 0; n < LOADS_OF_A; ++n) {
        from_a[n] = A + offset_of(first_row + row_of_a(n), first_k + k_of_a(n), K);
    }
    char* to_a = ring.memory + 4 * (k_of_a(0) * PITCH_OF_A + row_of_a(0));
    char* to_b = ring.memory + 4 * (FLOATS_OF_A + k_of_b * TILE_COLS + col_of_b(0));
    const char* fragments_of_a = ring.memory + 4 * (place.group * GROUP_DEPTH * PITCH_OF_A + place.row);
    const char* fragments_of_b = ring.memory + 4 * (FLOATS_OF_A + place.group * GROUP_DEPTH * TILE_COLS + place.col);

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
            if (GV && WHOLE) { lab_ldg(next_a[n], from_a[n], wanted); } else
            if (WHOLE && wanted) {
                next_a[n] = read4(from_a[n]);
            }
#ifndef PEAKGATE_EMULATED
            if (VP) asm volatile("add.s64 %0,%0,%1;" : "+l"(from_a[n]) : "l"(4ll * SLICE_DEPTH)); else
#endif
            from_a[n] += SLICE_DEPTH;
        }
    };
    const auto fetch_b = [&](int n, bool wanted) {
        if (GV && WHOLE) { lab_ldg(next_b[n], from_b + 4 * n * THREADS_OF_ROW_OF_B, wanted); } else
        if (WHOLE && wanted) {
            next_b[n] = read4(from_b + 4 * n * THREADS_OF_ROW_OF_B);
        }
        if (n + 1 == LOADS_OF_B) {
            from_b = reinterpret_cast<const float*>(reinterpret_cast<const char*>(from_b) + slice_of_b());
        }
    };
    const auto write_a = [&](unsigned slot, int slice) {
#pragma unroll
        for (int n = 0; n < LOADS_OF_A; ++n) {
            const int k = first_k + slice * SLICE_DEPTH + k_of_a(n);
            const float4 piece = WHOLE ? next_a[n] : load4(A, first_row + row_of_a(n), k, M, K);
            const int moved = (k_of_a(n) - k_of_a(0)) * PITCH_OF_A + row_of_a(n) - row_of_a(0);
            float* to = reinterpret_cast<float*>(to_a + slot) + moved;
            to[0 * PITCH_OF_A] = piece.x;
            to[1 * PITCH_OF_A] = piece.y;
            to[2 * PITCH_OF_A] = piece.z;
            to[3 * PITCH_OF_A] = piece.w;
        }
    };
    const auto write_b = [&](int n, unsigned slot, int slice) {
        const int k = first_k + slice * SLICE_DEPTH + k_of_b;
        const float4 piece = WHOLE ? next_b[n] : load4(B, k, first_col + col_of_b(n), K, N);
        write4(reinterpret_cast<float*>(to_b + slot) + 4 * n * THREADS_OF_ROW_OF_B, piece);
    };
    const auto read_fragments = [&](unsigned slot, int k) {
        const auto read_a = [&](int i) { unpack(lab_lds(fragments_of_a + slot, 4 * (k * PITCH_OF_A + i / 4 * ROW_STEP)), &a[k % 2][i]); };
        const auto read_b = [&](int j) { unpack(lab_lds(fragments_of_b + slot, 4 * (k * TILE_COLS + j / 4 * COL_STEP)), &b[k % 2][j]); };
        if (FL == 1) {
#pragma unroll
            for (int j = 0; j < THREAD_COLS; j += 4) read_b(j);
        }
        if (FL == 2) read_b(0);
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i += 4) read_a(i);
        if (FL != 1) {
#pragma unroll
            for (int j = FL == 2 ? 4 : 0; j < THREAD_COLS; j += 4) read_b(j);
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

    if (PIN & 1) {
        pin(sum, ring.memory + ring.slot(3) + 8 * thread);
    }
    // A round multiplies the last k of the slice before (zeros in the first round) while the first fragments of its own
    // slice arrive, then all but its last k.
    int slice = 0;
    int unfetched = slices - 3;  // -3 after the last round
#pragma unroll 1
    do {
        const unsigned slot = ring.slot(0);
        const unsigned later_slot = ring.slot(2);
        split_barrier_wait(ring.barrier(0), ring.slice / SLOTS);
        read_fragments(slot, 0);
        multiply(GROUP_DEPTH - 1);
#pragma unroll
        for (int k = 0; k + 1 < GROUP_DEPTH; ++k) {
            read_fragments(slot, k + 1);
            multiply(k);
            if (k == CPOS) {
                write_a(later_slot, slice + 2);
                fetch_a(unfetched > 0);
            }
#pragma unroll
            for (int n = 0; n < LOADS_OF_B; ++n) {
                if (k == CPOS + BGAP * n) {
                    write_b(n, later_slot, slice + 2);
                    fetch_b(n, unfetched > 0);
                }
            }
            if (k == CPOS + BGAP * (LOADS_OF_B - 1)) {
                split_barrier_arrive(ring.barrier(2));
            }
        }
        ++ring.slice;
        ++slice;
    } while (--unfetched > -3);
    multiply(GROUP_DEPTH - 1);
    if (PIN & 2) {
        pin(sum, ring.memory + ring.slot(3) + 8 * thread);
    }
}

// Every round of a barrier is seen through before the next one begins: between two calls of multiply_slices, everybody
// waits for the two slots past the last slice that were filled as well, with whatever was at hand, and never read.
__device__ __forceinline__ void see_through(Ring& ring) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        split_barrier_wait(ring.barrier(0), ring.slice / SLOTS);
        ++ring.slice;
    }
}

// Four sums on their way out. A float4 store takes four neighbouring registers; adding zero gives the values registers
// of their own, so that the sums may lie in whatever banks serve the loop best.
__device__ __forceinline__ float4 detached(const float* sums) {
    if (!DET) return pack(sums);
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
