// A block whose warps have roles, for stages with sums in tensor memory: a thread requests slices, another multiplies
// them, and four warps store C. All of them process one tile after the other.
//
// Slices of k, 128 bytes of each row, pass through a ring buffer of slots, as in specialised.cuh; `full` and `empty` are
// its barriers. The sums of a tile fill half of tensor memory. The two halves take turns: at `made` the products of a
// tile have ended, at `taken` its sums have been loaded, so that while one is stored the other one is computed.
//
// With BLOCKS 2 the blocks of a pair process a tile of twice the rows. Each brings its rows of A and half of the rows of
// B; rank 0 multiplies for both, so its barriers `full` and `taken` count for both, and its commits arrive in both.
#pragma once

#include "../common/bulk.cuh"
#include "../sgemm/raster.cuh"
#include "tensor_sums.cuh"

#define ROWS 128
#define COLS 256
#define DEPTH 64
#ifndef SLOTS
#define SLOTS 4
#endif
#ifndef BLOCKS
#define BLOCKS 1
#endif
#if BLOCKS > 1
#define TOGETHER __cluster_dims__(BLOCKS, 1, 1)
#endif
#define STORES 2
#define STORE_COLS 64

#define STORING_WARPS 4
#define BRINGING_WARP 4
#define MULTIPLYING_WARP 5
#define THREADS (32 * 6)

#define BYTES_OF_A (ROWS * DEPTH * 2)
#define BYTES_OF_B (COLS / BLOCKS * DEPTH * 2)
#define BYTES_OF_STORE (ROWS * STORE_COLS * 2)

using SlotTurn = RingTurn<SLOTS>;
using HalfTurn = RingTurn<2>;

struct Workspace {
    unsigned char* memory;  // SLOTS slices of A, SLOTS of B, STORES pieces of C, the barriers, the address of the sums

    __device__ __forceinline__ unsigned char* a(unsigned slot) const {
        return memory + slot * BYTES_OF_A;
    }
    __device__ __forceinline__ unsigned char* b(unsigned slot) const {
        return memory + SLOTS * BYTES_OF_A + slot * BYTES_OF_B;
    }
    __device__ __forceinline__ unsigned char* piece(unsigned index) const {
        return memory + SLOTS * (BYTES_OF_A + BYTES_OF_B) + index * BYTES_OF_STORE;
    }
    __device__ __forceinline__ Barrier* full(unsigned slot) const {
        return reinterpret_cast<Barrier*>(piece(STORES)) + slot;
    }
    __device__ __forceinline__ Barrier* empty(unsigned slot) const {
        return full(SLOTS + slot);
    }
    __device__ __forceinline__ Barrier* made(unsigned half) const {
        return full(2 * SLOTS + half);
    }
    __device__ __forceinline__ Barrier* taken(unsigned half) const {
        return full(2 * SLOTS + 2 + half);
    }
    __device__ __forceinline__ unsigned* sums() const {
        return reinterpret_cast<unsigned*>(full(2 * SLOTS + 4));
    }
};

// The tiles of C that this block processes, alone or with the other one of its pair.
struct Tiles {
    int down, across;
    int slices;
    int rank;

    __device__ __forceinline__ Tiles(int M, int N, int K)
        : down((M + ROWS * BLOCKS - 1) / (ROWS * BLOCKS)), across((N + COLS - 1) / COLS),
          slices((K + DEPTH - 1) / DEPTH), rank(blockIdx.x % BLOCKS) {}

    // Calls process(first row of this block, first column of the tile) for each of them.
    template <typename Process>
    __device__ __forceinline__ void each(const Process& process) const {
        for (int tile = blockIdx.x / BLOCKS; tile < down * across; tile += gridDim.x / BLOCKS) {
            const TileIndex at = raster<16>(tile, down, across);
            process((at.row * BLOCKS + rank) * ROWS, at.col * COLS);
        }
    }
};

// A barrier of the block, or of both blocks of the pair, also for accesses to tensor memory.
__device__ __forceinline__ void sync_blocks() {
#if BLOCKS > 1
    fence_tensor_before();
    cluster_sync();
    fence_tensor_after();
#else
    sync_tensors();
#endif
}

__device__ __forceinline__ void commit(Barrier* barrier) {
#if BLOCKS > 1
    commit_products_of_pair(barrier);
#else
    commit_products(barrier);
#endif
}

// All threads of the block have to call it, once.
__device__ __forceinline__ Workspace new_workspace(unsigned char* memory) {
    const Workspace work = {memory};
    if (threadIdx.x == 0) {
        for (unsigned slot = 0; slot < SLOTS; ++slot) {
            barrier_init(work.full(slot), 1);
            barrier_init(work.empty(slot), 1);
        }
        for (unsigned half = 0; half < 2; ++half) {
            barrier_init(work.made(half), 1);
            barrier_init(work.taken(half), STORING_WARPS * BLOCKS);
        }
        fence_barrier_init();
    }
    if (threadIdx.x / 32 == MULTIPLYING_WARP) {
        allocate_columns<2 * COLS, BLOCKS>(work.sums());
    }
    sync_blocks();
    return work;
}

// All threads of the block have to call it, once, when they have finished their parts.
__device__ __forceinline__ void end_workspace(const Workspace& work) {
    sync_blocks();
    if (threadIdx.x / 32 == MULTIPLYING_WARP) {
        free_columns<2 * COLS, BLOCKS>(*work.sums());
    }
}

// One thread: requests the slices of all tiles.
__device__ __forceinline__ void bring_tiles(const Workspace& work, const Tiles& tiles, const CUtensorMap* a,
                                            const CUtensorMap* b) {
    SlotTurn turn;
    tiles.each([&](int first_row, int first_col) {
        for (int slice = 0; slice < tiles.slices; ++slice) {
            barrier_wait(work.empty(turn.slot), turn.parity ^ 1);
            if (tiles.rank == 0) {
                barrier_expect(work.full(turn.slot), BLOCKS * (BYTES_OF_A + BYTES_OF_B));
            }
#if BLOCKS > 1
            load_tile_of_pair(work.a(turn.slot), a, slice * DEPTH, first_row, work.full(turn.slot));
            load_tile_of_pair(work.b(turn.slot), b, slice * DEPTH, first_col + tiles.rank * (COLS / BLOCKS),
                              work.full(turn.slot));
#else
            load_tile(work.a(turn.slot), a, slice * DEPTH, first_row, work.full(turn.slot));
            load_tile(work.b(turn.slot), b, slice * DEPTH, first_col, work.full(turn.slot));
#endif
            turn.next();
        }
    });
}

// One thread, of rank 0: multiplies the slices of all tiles.
__device__ __forceinline__ void multiply_tiles(const Workspace& work, const Tiles& tiles) {
    constexpr unsigned product = products_of<ROWS * BLOCKS, COLS>(FLOAT_SUMS, BF16_OPERANDS);
    SlotTurn turn;
    HalfTurn half;
    tiles.each([&](int, int) {
        const unsigned sums = *work.sums() + half.slot * COLS;
        wait_for_tensors(work.taken(half.slot), half.parity ^ 1);
        for (int slice = 0; slice < tiles.slices; ++slice) {
            barrier_wait(work.full(turn.slot), turn.parity);
            const unsigned long long a = operand_descriptor(work.a(turn.slot));
            const unsigned long long b = operand_descriptor(work.b(turn.slot));
#pragma unroll
            for (int step = 0; step < 4; ++step) {
                multiply_16_bits<BLOCKS>(sums, a + 2 * step, b + 2 * step, product, slice > 0 || step > 0);
            }
            commit(work.empty(turn.slot));
            turn.next();
        }
        commit(work.made(half.slot));
        half.next();
    });
}

// Four warps: store the sums of all tiles as bfloat16 through shared memory, STORE_COLS columns at a time; the copy
// engine omits what is outside.
__device__ __forceinline__ void store_tiles(const Workspace& work, const Tiles& tiles, const CUtensorMap* c) {
    const unsigned row = threadIdx.x;
    const bool first = threadIdx.x == 0;
    HalfTurn half;
    tiles.each([&](int first_row, int first_col) {
        const unsigned sums = *work.sums() + half.slot * COLS;
        wait_for_tensors(work.made(half.slot), half.parity);
#pragma unroll 1
        for (int piece = 0; piece < COLS / STORE_COLS; ++piece) {
            unsigned char* const memory = work.piece(piece % STORES);
            if (first) {
                wait_stores_read<STORES - 1>();
            }
            sync_threads<32 * STORING_WARPS>(1);
#pragma unroll
            for (unsigned chunk = 0; chunk < 8; chunk += 4) {
                float s[32];
                load_columns(s, sums + piece * STORE_COLS + 8 * chunk);
                wait_tensor_loads();
#pragma unroll
                for (unsigned i = 0; i < 4; ++i) {
                    *reinterpret_cast<uint4*>(memory + row * 128 + ((chunk + i) ^ row % 8) * 16) = pack_eight(s, 8 * i);
                }
            }
            fence_async_proxy();
            sync_threads<32 * STORING_WARPS>(1);
            if (first) {
                store_tile(c, memory, first_col + piece * STORE_COLS, first_row);
                commit_stores();
            }
        }
        fence_tensor_before();
        if (threadIdx.x % 32 == 0) {
#if BLOCKS > 1
            barrier_arrive_at(work.taken(half.slot), 0);
#else
            barrier_arrive(work.taken(half.slot));
#endif
        }
        half.next();
    });
    if (first) {
        wait_stores_read<0>();  // shared memory must not be released while stores read it
    }
}
