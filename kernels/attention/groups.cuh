// Attention by groups of four warps (wgmma), for which one warp requests tiles from the copy engine (TMA): the code
// that the last stages share.
//
// A block has 64 queries of one head for each group, and takes the keys and values of that head KEYS at a time, the
// last ones first: only the first tiles that it takes can have keys that a query must not see, and only these are
// masked. Keys and values have a ring buffer each, because a tile of keys is free long before its values are. `full`
// barriers count the bytes of a tile, `empty` barriers the groups that have read it.
//
// The weights of a tile never leave the registers: a thread has the scores of two queries in the layout that the left
// operand of the product with the values needs once they are rounded to bfloat16. Until the end each thread sums the
// weights of its own share of the keys.
//
// PING_PONG: the groups take turns, so that one computes exponentials while the other multiplies. OVERLAP: a group
// starts the products for the next scores before the product with the values, and computes the exponentials of these
// scores while that product is executing.
#pragma once

#include "../common/bf16.cuh"
#include "../common/hopper.cuh"
#include "problem.cuh"

#ifndef GROUPS
#define GROUPS 2
#endif
#ifndef KEYS
#define KEYS 128
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef PING_PONG
#define PING_PONG 0
#endif
#ifndef OVERLAP
#define OVERLAP 0
#endif

#define QUERIES (64 * GROUPS)
#define THREADS (128 * (GROUPS + 1))
#define PIECES (HEAD / 64)  // of 64 columns each, the width of the swizzle
#define BYTES_OF_QUERIES (QUERIES * HEAD * 2)
#define BYTES_OF_KEYS (KEYS * HEAD * 2)
#define PRODUCER_REGISTERS (GROUPS == 2 ? 40 : 32)
#define GROUP_REGISTERS (GROUPS == 2 ? 232 : 160)  // with the producer's at most as many as at launch

// Layout of the block's shared memory: queries, slots of keys, slots of values, barriers.
struct Tiles {
    unsigned char* memory;

    __device__ __forceinline__ unsigned char* queries(unsigned group) const {
        return memory + group * (64 * 128);
    }
    __device__ __forceinline__ unsigned char* keys(unsigned slot) const {
        return memory + BYTES_OF_QUERIES + slot * BYTES_OF_KEYS;
    }
    __device__ __forceinline__ unsigned char* values(unsigned slot) const {
        return keys(SLOTS + slot);
    }
    __device__ __forceinline__ Barrier* queries_full() const {
        return reinterpret_cast<Barrier*>(keys(2 * SLOTS));
    }
    __device__ __forceinline__ Barrier* keys_full(unsigned slot) const {
        return queries_full() + 1 + slot;
    }
    __device__ __forceinline__ Barrier* keys_empty(unsigned slot) const {
        return keys_full(SLOTS + slot);
    }
    __device__ __forceinline__ Barrier* values_full(unsigned slot) const {
        return keys_full(2 * SLOTS + slot);
    }
    __device__ __forceinline__ Barrier* values_empty(unsigned slot) const {
        return keys_full(3 * SLOTS + slot);
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

// All threads of the block have to call it, once.
__device__ __forceinline__ Tiles new_tiles(unsigned char* memory) {
    const Tiles tiles = {memory};
    if (threadIdx.x == 0) {
        barrier_init(tiles.queries_full(), 1);
        for (unsigned slot = 0; slot < SLOTS; ++slot) {
            barrier_init(tiles.keys_full(slot), 1);
            barrier_init(tiles.values_full(slot), 1);
            barrier_init(tiles.keys_empty(slot), GROUPS);
            barrier_init(tiles.values_empty(slot), GROUPS);
        }
        fence_barrier_init();
    }
    __syncthreads();
    return tiles;
}

// Loads a tile of ROWS rows of a head, 64 columns at a time.
template <int ROWS>
__device__ __forceinline__ void bring(unsigned char* to, const CUtensorMap* map, int row, int head, Barrier* full) {
    barrier_expect(full, ROWS * HEAD * 2);
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) {
        load_tile(to + piece * (ROWS * 128), map, piece * 64, row, head, full);
    }
}

// The producer's part: requests the block's queries, and all tiles of keys and values, the last tiles first.
__device__ __forceinline__ void bring_tiles(const Tiles& tiles, const CUtensorMap* q, const CUtensorMap* k,
                                            const CUtensorMap* v, int first_row, int head, int count) {
    Turn turn;
    bring<QUERIES>(tiles.queries(0), q, first_row, head, tiles.queries_full());
    for (int tile = count - 1; tile >= 0; --tile) {
        barrier_wait(tiles.keys_empty(turn.slot), turn.parity ^ 1);
        bring<KEYS>(tiles.keys(turn.slot), k, tile * KEYS, head, tiles.keys_full(turn.slot));
        barrier_wait(tiles.values_empty(turn.slot), turn.parity ^ 1);
        bring<KEYS>(tiles.values(turn.slot), v, tile * KEYS, head, tiles.values_full(turn.slot));
        turn.next();
    }
}

__device__ __forceinline__ void release(Barrier* empty) {
    if (threadIdx.x % 128 == 0) {
        barrier_arrive(empty);
    }
}

// What a group computes. Each thread has two queries: `row` and the one eight rows below.
struct Group {
    const Tiles& tiles;
    unsigned number;
    int row, length;
    Turn keys_turn, values_turn;
    float out[HEAD / 2];
    unsigned weights[KEYS / 16][4];
    float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};

    // Starts the products of the queries with a tile of keys, as one group of products.
    __device__ __forceinline__ void start_scores(float (&scores)[KEYS / 2]) {
        barrier_wait(tiles.keys_full(keys_turn.slot), keys_turn.parity);
        const unsigned long long a = tile_descriptor(tiles.queries(number));
        const unsigned long long b = tile_descriptor(tiles.keys(keys_turn.slot));
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < HEAD / 16; ++step) {
            multiply_bf16(scores, a + step / 4 * (QUERIES * 8) + step % 4 * 2, b + step / 4 * (KEYS * 8) + step % 4 * 2,
                          step > 0);
        }
        wgmma_commit();
    }

    // Starts the product of the weights with a tile of values, as one group of products.
    __device__ __forceinline__ void start_values(bool add) {
        barrier_wait(tiles.values_full(values_turn.slot), values_turn.parity);
        const unsigned long long b = columns_descriptor(tiles.values(values_turn.slot), KEYS * 128);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < KEYS / 16; ++step) {
            multiply_bf16(out, weights[step], b + step * 128, add || step > 0);
        }
        wgmma_commit();
    }

    __device__ __forceinline__ void release_keys() {
        release(tiles.keys_empty(keys_turn.slot));
        keys_turn.next();
    }

    __device__ __forceinline__ void release_values() {
        release(tiles.values_empty(values_turn.slot));
        values_turn.next();
    }

    // Turns scores into weights relative to the largest score so far; earlier weights have to be multiplied by
    // `shrink`.
    template <bool MASKED>
    __device__ __forceinline__ void weigh(float (&scores)[KEYS / 2], float (&shrink)[2], int first_key) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float larger = largest[half];
#pragma unroll
            for (int i = 0; i < KEYS / 4; ++i) {
                float& score = scores[i / 2 * 4 + half * 2 + i % 2];
                if (MASKED) {
                    const int key = first_key + i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;
                    score = key < length && (!CAUSAL || key <= row + half * 8) ? score : -INFINITY;
                }
                larger = fmaxf(larger, score);
            }
            larger = fmaxf(larger, __shfl_xor_sync(0xffffffff, larger, 1));
            larger = fmaxf(larger, __shfl_xor_sync(0xffffffff, larger, 2));
            // A query that has seen no key yet has no largest score: any finite number will do.
            const float about = MASKED && larger == -INFINITY ? 0.0f : larger * SCORE_FACTOR;
            shrink[half] = power_of_two(fmaf(largest[half], SCORE_FACTOR, -about));
            largest[half] = larger;
            float added = 0.0f;
#pragma unroll
            for (int i = 0; i < KEYS / 4; ++i) {
                float& score = scores[i / 2 * 4 + half * 2 + i % 2];
                score = power_of_two(fmaf(score, SCORE_FACTOR, -about));
                added += score;
            }
            sum[half] = fmaf(sum[half], shrink[half], added);
        }
    }

    __device__ __forceinline__ void round_weights(const float (&scores)[KEYS / 2]) {
#pragma unroll
        for (int i = 0; i < KEYS / 4; ++i) {
            weights[i / 4][i % 4] = pack_bf16(scores[2 * i], scores[2 * i + 1]);
        }
    }

    __device__ __forceinline__ void shrink_out(const float (&shrink)[2]) {
#pragma unroll
        for (int i = 0; i < HEAD / 2; ++i) {
            out[i] *= shrink[i / 2 % 2];
        }
    }

    __device__ __forceinline__ void await_turn() {
#if PING_PONG
        sync_threads<256>(1 + GROUPS + number);
#endif
    }

    __device__ __forceinline__ void pass_turn() {
#if PING_PONG
        arrive_threads<256>(1 + GROUPS + (number + 1) % GROUPS);
#endif
    }

    template <bool MASKED>
    __device__ __forceinline__ void take_tile(int tile, bool add) {
        float scores[KEYS / 2], shrink[2];
        await_turn();
#if OVERLAP
        start_scores(scores);
        start_values(add);
        pass_turn();
        wgmma_wait<1>();
        release_keys();
        weigh<MASKED>(scores, shrink, tile * KEYS);
        wgmma_wait<0>();
        release_values();
#else
        start_values(add);
        start_scores(scores);
        pass_turn();
        wgmma_wait<1>();
        release_values();
        wgmma_wait<0>();
        release_keys();
        weigh<MASKED>(scores, shrink, tile * KEYS);
#endif
        shrink_out(shrink);
        round_weights(scores);
    }

    // All tiles, the last first; tiles from `whole` on have keys that some query must not see.
    __device__ __forceinline__ void take_tiles(int count, int whole) {
        float scores[KEYS / 2], shrink[2];
        if (PING_PONG && number == GROUPS - 1) {
            pass_turn();  // the first group has the first turn
        }
        await_turn();
        start_scores(scores);
        pass_turn();
        wgmma_wait<0>();
        release_keys();
        weigh<true>(scores, shrink, (count - 1) * KEYS);
        round_weights(scores);
        int tile = count - 2;
        for (; tile >= whole; --tile) {
            take_tile<true>(tile, tile < count - 2);
        }
        for (; tile >= 0; --tile) {
            take_tile<false>(tile, tile < count - 2);
        }
        await_turn();
        start_values(count > 1);
        if (number < GROUPS - 1) {
            pass_turn();
        }
        wgmma_wait<0>();
    }

    // Stores the result as bfloat16: to shared memory in place of the group's queries, then to the array. Rows outside
    // the array are omitted.
    __device__ __forceinline__ void store(const CUtensorMap* o, int first_row, int head) {
        const unsigned lane = threadIdx.x % 32;
        const unsigned at = threadIdx.x % 128 / 32 * 16 + lane % 16;
        float factor[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            sum[half] += __shfl_xor_sync(0xffffffff, sum[half], 1);
            sum[half] += __shfl_xor_sync(0xffffffff, sum[half], 2);
            factor[half] = 1.0f / sum[half];
        }
        shrink_out(factor);
        unsigned char* const memory = tiles.queries(number);
#pragma unroll
        for (int j = 0; j < HEAD / 8; j += 2) {
            const float* from = out + 4 * j;
            const unsigned chunk = (j % 8 + lane / 16) ^ (at % 8);
            store_matrices(shared_address(memory) + j / 8 * (QUERIES * 128) + at * 128 + chunk * 16,
                           pack_bf16(from[0], from[1]), pack_bf16(from[2], from[3]), pack_bf16(from[4], from[5]),
                           pack_bf16(from[6], from[7]));
        }
        fence_async_proxy();
        sync_threads<128>(1 + number);
        if (threadIdx.x % 128 == 0) {
#pragma unroll
            for (int piece = 0; piece < PIECES; ++piece) {
                store_tile(o, memory + piece * (QUERIES * 128), piece * 64, first_row, head);
            }
            commit_stores();
            wait_stores_read<0>();
        }
    }
};

// What a block does for its queries, from `first_row` on.
__device__ __forceinline__ void attend(unsigned char* memory, const CUtensorMap* o, const CUtensorMap* q,
                                       const CUtensorMap* k, const CUtensorMap* v, int first_row, int head, int length) {
    const Tiles tiles = new_tiles(memory);
    const unsigned group = threadIdx.x / 128;
    const int end = CAUSAL ? min(length, first_row + QUERIES) : length;
    const int count = (end + KEYS - 1) / KEYS;
    if (group == GROUPS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x % 128 == 0) {
            bring_tiles(tiles, q, k, v, first_row, head, count);
        }
    } else {
        take_registers<GROUP_REGISTERS>();
        const int row = first_row + group * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
        Group own = {tiles, group, row, length};
        barrier_wait(tiles.queries_full(), 0);
        own.take_tiles(count, CAUSAL ? first_row / KEYS : length / KEYS);
        own.store(o, first_row + group * 64, head);
    }
}
