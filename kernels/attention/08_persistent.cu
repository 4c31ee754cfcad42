// persistent: a block takes one tile of queries after the other, and nothing waits between two of them.
//
// Against longest_first: there a block begins with waiting for its queries and first keys, computes its first weights
// while no product of its group executes, and ends with its last product and its store. No other block overlaps with
// that, since one fills an SM; with few keys it is half of a block's time. Here as many blocks start as run at once, and
// the tiles of queries are one sequence: a group starts the first scores of the next tile before the last product of
// this one, and computes the next weights while that product is executing, as between two tiles of keys. Meanwhile the
// producer requests the next queries, keys and values.
//
// The tiles are taken in sections of as many heads as there are blocks, or as have keys and values that stay in L2. In a
// section, the tiles with the most keys come first. With short sequences each block takes all tiles of its heads, so
// that all have the same work.
//
// Launch: THREADS threads, grid (blocks that run at once), dynamic shared memory for two slots of queries, the block's
// result, SLOTS tiles of keys and of values, and the barriers. Three-dimensional tensor maps as for longest_first.

#define PING_PONG 1
#define OVERLAP 1

#include "groups.cuh"

#define QUERY_SLOTS 2
#define BYTES_IN_L2 (36 << 20)  // of keys and values, in an L2 of 50 MB

// Registers of each group; with the producer's at most as many as at launch.
constexpr int REGISTERS = GROUPS == 4 ? 112 : GROUP_REGISTERS;

// One tile of queries of a head: `count` tiles of keys, of which those from `whole` on have keys that some query must
// not see.
struct Work {
    int head, first_row, count, whole;

    __device__ __forceinline__ Work(int number, int heads, int length) {
        const int tiles = (length + QUERIES - 1) / QUERIES;
        const int in_section = max(1, min(BYTES_IN_L2 / (4 * HEAD) / length, int(gridDim.x)));
        const int first_head = number / (in_section * tiles) * in_section;
        const int together = min(in_section, heads - first_head);
        const int at = number - first_head * tiles;
        first_row = (tiles - 1 - at / together) * QUERIES;
        head = first_head + at % together;
        count = ((CAUSAL ? min(length, first_row + QUERIES) : length) + KEYS - 1) / KEYS;
        whole = (CAUSAL ? first_row : length) / KEYS;
    }
};

// The ring of queries: before the other tiles, where the place of the queries is that of the result.
struct Queries {
    const Tiles& tiles;
    unsigned slot = 0, parity = 0;

    __device__ __forceinline__ unsigned char* memory(unsigned group) const {
        return tiles.queries(group) - (1 + slot) * BYTES_OF_QUERIES;
    }
    __device__ __forceinline__ Barrier* full() const {
        return tiles.values_empty(SLOTS + slot);
    }
    __device__ __forceinline__ Barrier* empty() const {
        return tiles.values_empty(SLOTS + QUERY_SLOTS + slot);
    }
    __device__ __forceinline__ void next() {
        slot ^= 1;
        parity ^= slot == 0;
    }
};

// The first of this thread's two rows in a tile of queries.
__device__ __forceinline__ int row_in_tile() {
    return threadIdx.x / 128 * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
}

// Starts the products of the queries in the ring's slot with a tile of keys, as one group of products.
__device__ __forceinline__ void start_scores(Group& own, const Queries& queries, float (&scores)[KEYS / 2]) {
    barrier_wait(own.tiles.keys_full(own.keys_turn.slot), own.keys_turn.parity);
    const unsigned long long a = tile_descriptor(queries.memory(own.number));
    const unsigned long long b = tile_descriptor(own.tiles.keys(own.keys_turn.slot));
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < HEAD / 16; ++step) {
        multiply_bf16(scores, a + step / 4 * (QUERIES * 8) + step % 4 * 2, b + step / 4 * (KEYS * 8) + step % 4 * 2,
                      step > 0);
    }
    wgmma_commit();
}

// Begins the block's first tile of queries, whose first scores nothing overlaps.
__device__ __forceinline__ void begin(Group& own, const Work& work, const Queries& queries) {
    float scores[KEYS / 2], shrink[2];
    if (own.number == GROUPS - 1) {
        own.pass_turn();  // the first group has the first turn
    }
    barrier_wait(queries.full(), queries.parity);
    own.await_turn();
    start_scores(own, queries, scores);
    own.pass_turn();
    wgmma_wait<0>();
    own.release_keys();
    own.weigh<true>(scores, shrink, (work.count - 1) * KEYS);
    own.round_weights(scores);
}

// Takes a tile of keys of the same queries.
template <bool MASKED>
__device__ __forceinline__ void take(Group& own, const Queries& queries, int tile, bool add) {
    float scores[KEYS / 2], shrink[2];
    own.await_turn();
    start_scores(own, queries, scores);
    own.start_values(add);
    own.pass_turn();
    wgmma_wait<1>();
    own.release_keys();
    own.weigh<MASKED>(scores, shrink, tile * KEYS);
    wgmma_wait<0>();
    own.release_values();
    own.shrink_out(shrink);
    own.round_weights(scores);
}

// Ends a tile of queries, and begins the `next` one in the ring, in one turn.
__device__ __forceinline__ void turn_over(Group& own, const CUtensorMap* o, const Work& work, const Work& next,
                                          const Queries& queries) {
    float scores[KEYS / 2], shrink[2];
    barrier_wait(queries.full(), queries.parity);
    own.await_turn();
    start_scores(own, queries, scores);
    own.start_values(work.count > 1);
    own.pass_turn();
    wgmma_wait<1>();
    own.release_keys();

    const float ended[2] = {own.sum[0], own.sum[1]};
    own.row = next.first_row + row_in_tile();
    own.largest[0] = own.largest[1] = -INFINITY;
    own.sum[0] = own.sum[1] = 0.0f;
    own.weigh<true>(scores, shrink, (next.count - 1) * KEYS);
    wgmma_wait<0>();
    own.release_values();

    const float begun[2] = {own.sum[0], own.sum[1]};
    own.sum[0] = ended[0], own.sum[1] = ended[1];
    own.store(o, work.first_row + own.number * 64, work.head);
    own.sum[0] = begun[0], own.sum[1] = begun[1];
    own.round_weights(scores);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    persistent(const __grid_constant__ CUtensorMap o, const __grid_constant__ CUtensorMap q,
               const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v, int heads, int n) {
    extern __shared__ __align__(1024) unsigned char memory[];

    const Tiles tiles = {memory + QUERY_SLOTS * BYTES_OF_QUERIES};
    if (threadIdx.x == 0) {
        for (unsigned slot = 0; slot < QUERY_SLOTS; ++slot) {
            barrier_init(Queries{tiles, slot}.full(), 1);
            barrier_init(Queries{tiles, slot}.empty(), GROUPS);
        }
    }
    new_tiles(tiles.memory);
    const unsigned group = threadIdx.x / 128;
    const int all = (n + QUERIES - 1) / QUERIES * heads;
    Queries queries = {tiles};
    if (group == GROUPS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x % 128 == 0) {
            Turn turn;
            for (int number = blockIdx.x; number < all; number += gridDim.x) {
                const Work work(number, heads, n);
                barrier_wait(queries.empty(), queries.parity ^ 1);
                bring<QUERIES>(queries.memory(0), &q, work.first_row, work.head, queries.full());
                queries.next();
                for (int tile = work.count - 1; tile >= 0; --tile) {
                    barrier_wait(tiles.keys_empty(turn.slot), turn.parity ^ 1);
                    bring<KEYS>(tiles.keys(turn.slot), &k, tile * KEYS, work.head, tiles.keys_full(turn.slot));
                    barrier_wait(tiles.values_empty(turn.slot), turn.parity ^ 1);
                    bring<KEYS>(tiles.values(turn.slot), &v, tile * KEYS, work.head, tiles.values_full(turn.slot));
                    turn.next();
                }
            }
        }
    } else {
        take_registers<REGISTERS>();
        int number = blockIdx.x;
        Work work(number, heads, n);
        Group own = {tiles, group, work.first_row + row_in_tile(), n};
        begin(own, work, queries);
        for (;;) {
            int tile = work.count - 2;
            for (; tile >= work.whole; --tile) {
                take<true>(own, queries, tile, tile < work.count - 2);
            }
            for (; tile >= 0; --tile) {
                take<false>(own, queries, tile, tile < work.count - 2);
            }
            release(queries.empty());
            number += gridDim.x;
            if (number >= all) {
                break;
            }
            const Work next(number, heads, n);
            queries.next();
            turn_over(own, &o, work, next, queries);
            work = next;
        }
        own.await_turn();
        own.start_values(work.count > 1);
        if (group < GROUPS - 1) {
            own.pass_turn();
        }
        wgmma_wait<0>();
        own.store(&o, work.first_row + group * 64, work.head);
    }
}
