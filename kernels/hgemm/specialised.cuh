// A block whose warps are specialised: a producer requests copies from the copy engine, and groups of four warps
// multiply. All stages from specialised on share it.
//
// Slices of k, 128 bytes of each row, pass through a ring buffer of slots. Each slot has two barriers: `full`, at which
// the copy engine counts the bytes of the slice, and `empty`, at which each group arrives when it has read the slot.
// Warps synchronize by these barriers alone, so the groups may be as many slices apart as there are slots: while one
// group stores its sums, the other has the tensor cores to itself.
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
#ifndef STORES
#define STORES 2
#endif
#define BYTES_OF_STORE (64 * STORE_COLS * 2)
#ifndef BYTES_BESIDE
#define BYTES_BESIDE (GROUPS * STORES * BYTES_OF_STORE)
#endif
#define SUMS (COLS / 2)
#define PRODUCER_REGISTERS 40
#define GROUP_REGISTERS (GROUPS <= 2 ? 232 : GROUPS == 3 ? 152 : 104)  // with the producer's no more than at launch

static_assert(ROWS % 64 == 0, "a group has 64 rows");
static_assert(128 * (PRODUCER_REGISTERS + GROUPS * GROUP_REGISTERS) <= THREADS * (65536 / THREADS / 8 * 8),
              "no group waits for registers that nobody gives");

struct Ring {
    unsigned char* memory;  // SLOTS slices of A, SLOTS of B, STORES pieces of C for each group, then the barriers

    __device__ __forceinline__ unsigned char* a(unsigned slot) const {
        return memory + slot * BYTES_OF_A;
    }
    __device__ __forceinline__ unsigned char* b(unsigned slot) const {
        return memory + SLOTS * BYTES_OF_A + slot * BYTES_OF_B;
    }
    __device__ __forceinline__ unsigned char* beside() const {
        return memory + SLOTS * (BYTES_OF_A + BYTES_OF_B);
    }
    __device__ __forceinline__ unsigned char* piece(unsigned group, unsigned index) const {
        return beside() + (group * STORES + index) * BYTES_OF_STORE;
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

// The producer's thread prefetches the tensor maps, which are in device memory, while the barriers are initialised.
__device__ __forceinline__ void prefetch_maps(const CUtensorMap* a, const CUtensorMap* b) {
    if (threadIdx.x == 128 * GROUPS) {
        prefetch_map(a);
        prefetch_map(b);
    }
}

// All threads of the block have to call it, once.
__device__ __forceinline__ Ring new_ring(unsigned char* memory) {
    const Ring ring = {memory};
    if (threadIdx.x == 0) {
        for (unsigned slot = 0; slot < SLOTS; ++slot) {
            barrier_init(ring.full(slot), 1);
            barrier_init(ring.empty(slot), GROUPS * CLUSTER);
        }
        fence_barrier_init();
    }
#if CLUSTER > 1
    cluster_sync();
#else
    __syncthreads();
#endif
    return ring;
}

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

// A group's part of a tile: computes the sums of its 64 rows. The products of one slice are always pending.
__device__ __forceinline__ void multiply_slices(float (&sums)[SUMS], const Ring& ring, Turn& turn, unsigned group,
                                                int slices) {
    unsigned last = 0;
    for (int slice = 0; slice < slices; ++slice) {
        barrier_wait(ring.full(turn.slot), turn.parity);
        const unsigned long long a = tile_descriptor(ring.a(turn.slot) + group * (64 * 128));
        const unsigned long long b = tile_descriptor(ring.b(turn.slot));
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            MULTIPLY(sums, a + 2 * step, b + 2 * step, slice > 0 || step > 0);
        }
        wgmma_commit();
        wgmma_wait<1>();
        if (slice > 0) {
            release(ring, last);
        }
        last = turn.slot;
        turn.next();
    }
    wgmma_wait<0>();
    release(ring, last);
}

// Stores a group's sums as bfloat16 through shared memory to C, 64 columns at a time; the copy engine omits what is
// outside. The last stores may still be pending when it returns: call `wait_stores_read` before the block ends.
__device__ __forceinline__ void store_sums(const float (&sums)[SUMS], const Ring& ring, const CUtensorMap* c,
                                           unsigned group, int first_row, int first_col) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned row = threadIdx.x % 128 / 32 * 16 + lane % 16;
    const bool first = threadIdx.x % 128 == 0;
#pragma unroll
    for (int piece = 0; piece < COLS / STORE_COLS; ++piece) {
        unsigned char* const memory = ring.piece(group, piece % STORES);
        if (first) {
            // With an odd number of pieces the first one of a tile uses the memory of the last one of the tile before.
            wait_stores_read<COLS / STORE_COLS % STORES ? 0 : STORES - 1>();
        }
        sync_threads<128>(1 + group);
#pragma unroll
        for (unsigned j = 0; j < STORE_COLS / 8; j += 2) {
            const float* from = sums + piece * (STORE_COLS / 2) + 4 * j;
            const unsigned chunk = STORE_COLS == 64 ? (j + lane / 16) ^ (row % 8) : j + lane / 16;
            store_matrices(shared_address(memory) + row * (STORE_COLS * 2) + chunk * 16, pack_bf16(from[0], from[1]),
                           pack_bf16(from[2], from[3]), pack_bf16(from[4], from[5]), pack_bf16(from[6], from[7]));
        }
        fence_async_proxy();
        sync_threads<128>(1 + group);
        if (first) {
            store_tile(c, memory, first_col + piece * STORE_COLS, first_row + group * 64);
            commit_stores();
        }
    }
}
