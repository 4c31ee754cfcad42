// A block whose warps are specialised: a producer requests copies from the copy engine, and groups of four warps
// multiply. All stages from specialised on share it.
//
// Slices of k, 128 bytes of each row, pass through a ring buffer of slots. Each slot has two barriers: `full`, at which
// the copy engine counts the bytes of the slice, and `empty`, at which each group arrives when it has read the slot.
// Warps synchronize by these barriers alone, so the groups may be as many slices apart as there are slots: while one
// group stores its sums, the other has the tensor cores to itself.
//
// C leaves as bfloat16 through shared memory, in pieces of STORE_COLS columns and the 64 rows of a group.
#pragma once

#include "group_sums.cuh"

#ifndef ROWS
#define ROWS 128
#endif
#ifndef COLS
#define COLS 256
#endif
#ifndef SLOTS
#define SLOTS 4
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif

#define GROUPS (ROWS / 64)
#ifndef TOGETHER
#if CLUSTER > 1
#define TOGETHER __cluster_dims__(CLUSTER, 1, 1)
#else
#define TOGETHER
#endif
#endif
#define THREADS (128 * (GROUPS + 1))
#define PRODUCER (128 * GROUPS)  // the thread that requests slices
#ifdef E4M3
#define DEPTH 128
#define MULTIPLY multiply_e4m3
#else
#define DEPTH 64
#define MULTIPLY multiply_bf16
#endif
#define BYTES_OF_A (ROWS * 128)
#define BYTES_OF_B (COLS * 128)
#ifndef STORE_COLS
#define STORE_COLS 64
#endif
#ifndef BYTES_BESIDE
#define BYTES_BESIDE 0
#endif
#define SUMS (COLS / 2)
#define PIECES (COLS / STORE_COLS)
#define PRODUCER_REGISTERS 40
#define GROUP_REGISTERS (GROUPS <= 2 ? 232 : GROUPS == 3 ? 152 : 104)  // with the producer's no more than at launch

static_assert(ROWS % 64 == 0, "a group has 64 rows");
static_assert(128 * (PRODUCER_REGISTERS + GROUPS * GROUP_REGISTERS) <= THREADS * (65536 / THREADS / 8 * 8),
              "no group waits for registers that nobody gives");

struct Ring {
    unsigned char* memory;  // SLOTS slices of A, SLOTS of B, what else a stage needs, then the barriers

    __device__ __forceinline__ unsigned char* a(unsigned slot) const {
        return memory + slot * BYTES_OF_A;
    }
    // The rows of A that only one group reads: as many bytes as a piece of C has, or more.
    __device__ __forceinline__ unsigned char* rows_of_a(unsigned slot, unsigned group) const {
        return a(slot) + group * (64 * 128);
    }
    __device__ __forceinline__ unsigned char* b(unsigned slot) const {
        return memory + SLOTS * BYTES_OF_A + slot * BYTES_OF_B;
    }
    __device__ __forceinline__ unsigned char* beside() const {
        return memory + SLOTS * (BYTES_OF_A + BYTES_OF_B);
    }
    __device__ __forceinline__ Barrier* full(unsigned slot) const {
        return reinterpret_cast<Barrier*>(beside() + BYTES_BESIDE) + slot;
    }
    __device__ __forceinline__ Barrier* empty(unsigned slot) const {
        return full(SLOTS + slot);
    }
};

// The current slot of a ring, and the parity of the current phase of its barriers.
struct Turn {
    unsigned slot = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void next() {
        if (++slot == SLOTS) {
            slot = 0;
            parity ^= 1;
        }
    }
};

// The producer's part of a tile: requests slices first_slice to end_slice of its rows of A and of B. In a cluster every
// block loads its share of B for all of them.
__device__ __forceinline__ void bring_slices(const Ring& ring, Turn& turn, const CUtensorMap* a, const CUtensorMap* b,
                                             int first_row, int first_col, int first_slice, int end_slice) {
    for (int slice = first_slice; slice < end_slice; ++slice) {
        barrier_wait(ring.empty(turn.slot), turn.parity ^ 1);
        barrier_expect(ring.full(turn.slot), BYTES_OF_A + BYTES_OF_B);
        load_tile(ring.a(turn.slot), a, slice * DEPTH, first_row, ring.full(turn.slot));
#if CLUSTER > 1
        const unsigned rank = cluster_rank();
        load_tile_everywhere(ring.b(turn.slot) + rank * (BYTES_OF_B / CLUSTER), b, slice * DEPTH,
                             first_col + rank * (COLS / CLUSTER), ring.full(turn.slot), (1 << CLUSTER) - 1);
#else
        load_tile(ring.b(turn.slot), b, slice * DEPTH, first_col, ring.full(turn.slot));
#endif
        turn.next();
    }
}

// All threads of the block have to call it, once, to begin. The producer's thread initialises the barriers and, if no
// other block has to be ready for the slices, requests as many as there are slots at once: before the other warps have
// even met it. Returns the first slice that is not requested yet.
__device__ __forceinline__ int start_ring(const Ring& ring, Turn& turn, const CUtensorMap* a, const CUtensorMap* b,
                                          int first_row, int first_col, int first_slice, int end_slice) {
    const int requested = CLUSTER > 1 ? first_slice : min(first_slice + SLOTS, end_slice);
    if (threadIdx.x == PRODUCER) {
        prefetch_map(a);
        prefetch_map(b);
        for (unsigned slot = 0; slot < SLOTS; ++slot) {
            barrier_init(ring.full(slot), 1);
            barrier_init(ring.empty(slot), GROUPS * CLUSTER);
        }
        fence_barrier_init();
        bring_slices(ring, turn, a, b, first_row, first_col, first_slice, requested);
    }
#if CLUSTER > 1
    cluster_sync();
#else
    __syncthreads();
#endif
    return requested;
}

__device__ __forceinline__ void release(const Ring& ring, unsigned slot) {
    const unsigned block = threadIdx.x % 128;
    if (block < CLUSTER) {
#if CLUSTER > 1
        barrier_arrive_at(ring.empty(slot), block);
#else
        barrier_arrive(ring.empty(slot));
#endif
    }
}

struct Nothing {
    __device__ __forceinline__ void operator()(int) const {}
};

// A group's part of a tile: computes the sums of its 64 rows. The products of one slice are always pending. While those
// of slice i are, for i below CALLS, it calls meanwhile(i), whether or not there are so many slices.
template <int CALLS = 0, typename Meanwhile = Nothing>
__device__ __forceinline__ void multiply_slices(float (&sums)[SUMS], const Ring& ring, Turn& turn, unsigned group,
                                                int slices, const Meanwhile& meanwhile = {}) {
    unsigned last = 0;
    const auto multiply = [&](bool add) {
        barrier_wait(ring.full(turn.slot), turn.parity);
        const unsigned long long a = tile_descriptor(ring.rows_of_a(turn.slot, group));
        const unsigned long long b = tile_descriptor(ring.b(turn.slot));
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            MULTIPLY(sums, a + 2 * step, b + 2 * step, add || step > 0);
        }
        wgmma_commit();
    };
    const auto finish_last = [&](int slice) {
        wgmma_wait<1>();
        if (slice > 0) {
            release(ring, last);
        }
        last = turn.slot;
        turn.next();
    };
#pragma unroll
    for (int slice = 0; slice < CALLS; ++slice) {
        if (slice < slices) {
            multiply(slice > 0);
        }
        meanwhile(slice);
        if (slice < slices) {
            finish_last(slice);
        }
    }
    for (int slice = CALLS; slice < slices; ++slice) {
        multiply(CALLS > 0 || slice > 0);
        finish_last(slice);
    }
    wgmma_wait<0>();
    release(ring, last);
}

// Packs the sums of a piece as bfloat16, pairs of neighbouring columns.
__device__ __forceinline__ void pack_piece(unsigned* packed, const float* sums) {
#pragma unroll
    for (int i = 0; i < STORE_COLS / 4; ++i) {
        packed[i] = pack_bf16(sums[2 * i], sums[2 * i + 1]);
    }
}

// Writes a packed piece of a group to shared memory.
__device__ __forceinline__ void write_piece(unsigned char* memory, const unsigned* packed) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned row = threadIdx.x % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (unsigned j = 0; j < STORE_COLS / 8; j += 2) {
        const unsigned chunk = STORE_COLS == 64 ? (j + lane / 16) ^ (row % 8) : j + lane / 16;
        store_matrices(shared_address(memory) + row * (STORE_COLS * 2) + chunk * 16, packed[2 * j], packed[2 * j + 1],
                       packed[2 * j + 2], packed[2 * j + 3]);
    }
}

// Stores a group's sums of the last tile of this block. All its pieces pass through shared memory at once, in the rows
// of A that only this group has read. The copy engine omits what is outside C.
__device__ __forceinline__ void store_last_sums(const float (&sums)[SUMS], const Ring& ring, const CUtensorMap* c,
                                                unsigned group, int first_row, int first_col) {
    static_assert(PIECES <= SLOTS, "each piece has the rows of A of a slot");
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) {
        unsigned packed[STORE_COLS / 4];
        pack_piece(packed, sums + piece * (STORE_COLS / 2));
        write_piece(ring.rows_of_a(piece, group), packed);
    }
    fence_async_proxy();
    sync_threads<128>(1 + group);
    if (threadIdx.x % 128 == 0) {
        for (int piece = 0; piece < PIECES; ++piece) {
            store_tile(c, ring.rows_of_a(piece, group), first_col + piece * STORE_COLS, first_row + group * 64);
        }
        commit_stores();
        wait_stores_read<0>();  // shared memory must not be released while stores read it
    }
}
