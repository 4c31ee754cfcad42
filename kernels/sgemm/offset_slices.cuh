// Slices of k for ring_loop.cuh, written for the two banks of the register file; used by barrier_ring and stream_k.
//
// ptxas assigns the registers, and CUDA C++ cannot control it. But the cost of a multiply-add depends on it: the
// register file has two banks, for even and odd registers, and an instruction that reads two registers of the same bank
// takes a cycle more. This file is written in the way from which ptxas generates the fewest such conflicts and the
// fewest other instructions:
// - A slot is an offset in bytes from constant addresses instead of a pointer. All threads have the same offset: shared
//   memory is accessed at [register + uniform register + constant].
// - The float4 of B that a thread loads are in one row: one pointer for all.
// - Loads from global memory are predicated instead of branched around: the loop is two basic blocks, not five.
// - Fragments of B are read before those of A.
// Measurements of each way are in docs/results/sgemm.md.
#pragma once

#include "ring_tile.cuh"

#define THREADS_OF_ROW (THREADS / SLICE_DEPTH)

static_assert(THREADS % SLICE_DEPTH == 0, "a thread loads from one row");
static_assert(LOADS_OF_B * THREADS_OF_ROW * 4 == TILE_COLS, "its threads load a row");
static_assert(LOADS_OF_A == 1, "one float4 of A per thread");
static_assert(K_GROUPS == 1, "every warp sums over all of k");

// Loads four floats if `wanted`, else leaves `into` as it is. Inline PTX gives a predicated load, where ptxas sometimes
// makes a branch of an `if`.
__device__ __forceinline__ void read4_if(bool wanted, float4& into, const float* from) {
#ifdef PEAKGATE_EMULATED
    if (wanted) {
        into = read4(from);
    }
#else
    asm volatile("{\n"
                 ".reg .pred wanted;\n"
                 "setp.gt.s32 wanted, %5, 0;\n"
                 "@wanted ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 "}"
                 : "+f"(into.x), "+f"(into.y), "+f"(into.z), "+f"(into.w)
                 : "l"(from), "r"(static_cast<int>(wanted)));
#endif
}

// WHOLE: the tile is inside C, K is a multiple of SLICE_DEPTH and rows of B are 16-byte aligned.
template <bool WHOLE>
struct OffsetSlices {
    const Ring& ring;
    const float* __restrict__ A;
    const float* __restrict__ B;
    int M, N, K, first_row, first_col, first_k;
    int thread, row_of_a, k_of_a, k_of_b;
    const float* from_a;
    const float* from_b;
    char* memory;
    char* to_a;
    char* to_b;
    const char* fragments_of_a;
    const char* fragments_of_b;
    float4 next_a = {};
    float4 next_b[LOADS_OF_B] = {};

    __device__ __forceinline__ OffsetSlices(const Ring& ring, const float* __restrict__ A, const float* __restrict__ B,
                                            int M, int N, int K, int first_row, int first_col, int first_k)
        : ring(ring), A(A), B(B), M(M), N(N), K(K), first_row(first_row), first_col(first_col), first_k(first_k) {
        thread = threadIdx.x;
        // Two threads load the two float4 of a 32-byte sector of A, the next two threads those of the next row.
        row_of_a = thread / 2 % TILE_ROWS;
        k_of_a = (thread / 2 / TILE_ROWS * 2 + thread % 2) * 4;
        k_of_b = thread / THREADS_OF_ROW;
        from_a = A + offset_of(first_row + row_of_a, first_k + k_of_a, K);
        from_b = B + offset_of(first_k + k_of_b, first_col + col_of_b(0), N);

        const Place place = place_of(thread);
        memory = reinterpret_cast<char*>(ring.memory);
        to_a = memory + 4 * (k_of_a * PITCH_OF_A + row_of_a);
        to_b = memory + 4 * (FLOATS_OF_A + k_of_b * TILE_COLS + col_of_b(0));
        fragments_of_a = memory + 4 * place.row;
        fragments_of_b = memory + 4 * (FLOATS_OF_A + place.col);
    }

    // Not the column of load 0 plus a step for the others: with that, ptxas makes 39 more bank conflicts per round.
    __device__ __forceinline__ int col_of_b(int n) const {
        return (thread % THREADS_OF_ROW + n * THREADS_OF_ROW) * 4;
    }

    // Byte offset of the slot of the slice that is `ahead` slices after the next one.
    __device__ __forceinline__ unsigned slot(unsigned ahead) const {
        return (ring.slice + ahead) % SLOTS * (4 * FLOATS_OF_SLOT);
    }
    __device__ __forceinline__ SplitBarrier* barrier(unsigned ahead) const {
        return reinterpret_cast<SplitBarrier*>(memory + 4 * (FLOATS_OF_A + FLOATS_OF_B) + slot(ahead));
    }

    // Slices are fetched one after the other. At the edges of the matrices, where guarded loads take many registers,
    // nothing is fetched ahead.
    __device__ __forceinline__ void fetch_a(bool wanted) {
        if (WHOLE) {
            read4_if(wanted, next_a, from_a);
        }
        from_a += SLICE_DEPTH;
    }
    __device__ __forceinline__ void fetch_b(int n, bool wanted) {
        if (WHOLE) {
            read4_if(wanted, next_b[n], from_b + n * 4 * THREADS_OF_ROW);
        }
        if (n + 1 == LOADS_OF_B) {
            from_b = next_slice_of_b(from_b, N);
        }
    }
    __device__ __forceinline__ void write_a(unsigned slot, int slice) const {
        const int k = first_k + slice * SLICE_DEPTH + k_of_a;
        const float4 piece = WHOLE ? next_a : load4(A, first_row + row_of_a, k, M, K);
        write_column(reinterpret_cast<float*>(to_a + slot), piece);
    }
    __device__ __forceinline__ void write_b(int n, unsigned slot, int slice) const {
        const int k = first_k + slice * SLICE_DEPTH + k_of_b;
        const float4 piece = WHOLE ? next_b[n] : load4(B, k, first_col + col_of_b(n), K, N);
        write4(reinterpret_cast<float*>(to_b + slot) + n * 4 * THREADS_OF_ROW, piece);
    }
    __device__ __forceinline__ void read(unsigned slot, int k, float* a, float* b) const {
        read_b(reinterpret_cast<const float*>(fragments_of_b + slot) + k * TILE_COLS, b);
        read_a(reinterpret_cast<const float*>(fragments_of_a + slot) + k * PITCH_OF_A, a);
    }
};
