// persistent: a block takes one tile of queries after the other, and nothing waits between two of them.
//
// Against longest_first: there a block begins with waiting for its queries and first keys, computes its first weights
// while no product of its group executes, and ends with its last product and its store. No other block overlaps with
// that, since one fills an SM; with few keys it is half of a block's time. Here as many blocks start as run at once, and
// the tiles of queries are one sequence: a group starts the first scores of the next tile before the last product of
// this one, and computes the next weights while that product is executing, as between two tiles of keys. The producer
// runs ahead by two tiles of queries, for which there are three slots: a group stores its result from the slot of its
// queries.
//
// The tiles are taken in sections of as many heads as there are blocks, or as have keys and values that stay in L2. In a
// section, the tiles with the most keys come first. With short sequences each block takes all tiles of its heads, so
// that all have the same work.
//
// Launch: THREADS threads, grid (blocks that run at once), dynamic shared memory for QUERY_SLOTS tiles of queries, SLOTS
// tiles of keys and of values, and the barriers. Three-dimensional tensor maps as for longest_first.

#define PING_PONG 1
#define OVERLAP 1
#define QUERY_SLOTS 3

#include "groups.cuh"

#define BYTES_IN_L2 (36 << 20)  // of keys and values, in an L2 of 50 MB

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

// Ends a tile of queries, and begins the `next` one, as a turn between two tiles of keys.
__device__ __forceinline__ void turn_over(Group& own, const CUtensorMap* o, const Work& work, const Work& next,
                                          const TurnOf<QUERY_SLOTS>& queries) {
    float scores[KEYS / 2], shrink[2];
    const unsigned slot = own.query_slot;
    own.query_slot = queries.slot;
    barrier_wait(own.tiles.queries_full(queries.slot), queries.parity);
    own.await_turn();
    own.start_scores(scores);
    own.start_values(work.count > 1);
    own.pass_turn();
    wgmma_wait<1>();
    own.release_keys();

    float weight[2] = {own.sum[0], own.sum[1]};
    own.row = next.first_row + row_in_tile();
    own.largest[0] = own.largest[1] = -INFINITY;
    own.sum[0] = own.sum[1] = 0.0f;
    own.weigh<true>(scores, shrink, (next.count - 1) * KEYS);
    wgmma_wait<0>();
    own.release_values();
    own.store(o, weight, slot, work.first_row + own.number * 64, work.head);
    own.round_weights(scores);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    persistent(const __grid_constant__ CUtensorMap o, const __grid_constant__ CUtensorMap q,
               const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v, int heads, int n) {
    extern __shared__ __align__(1024) unsigned char memory[];

    const Tiles tiles = new_tiles(memory);
    const unsigned group = threadIdx.x / 128;
    const int all = (n + QUERIES - 1) / QUERIES * heads;
    TurnOf<QUERY_SLOTS> queries;
    if (group == GROUPS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x % 128 == 0) {
            Turn turn;
            for (int number = blockIdx.x; number < all; number += gridDim.x) {
                const Work work(number, heads, n);
                barrier_wait(tiles.queries_empty(queries.slot), queries.parity ^ 1);
                bring<QUERIES>(tiles.queries(0, queries.slot), &q, work.first_row, work.head,
                               tiles.queries_full(queries.slot));
                bring_tiles(tiles, turn, &k, &v, work.head, work.count);
                queries.next();
            }
        }
    } else {
        take_registers<GROUP_REGISTERS>();
        int number = blockIdx.x;
        Work work(number, heads, n);
        Group own = {tiles, group, work.first_row + row_in_tile(), n};
        barrier_wait(tiles.queries_full(0), 0);
        own.take_first(work.count - 1);
        for (;;) {
            own.take_rest(work.count, work.whole);
            number += gridDim.x;
            if (number >= all) {
                break;
            }
            const Work next(number, heads, n);
            queries.next();
            turn_over(own, &o, work, next, queries);
            work = next;
            if (threadIdx.x % 128 == 0 && number >= 2 * gridDim.x + blockIdx.x) {
                wait_stores_read<1>();  // all stores but the last have read their slots
                barrier_arrive(tiles.queries_empty((queries.slot + 1) % QUERY_SLOTS));
            }
        }
        own.take_values(work.count > 1);
        own.store(&o, own.sum, own.query_slot, work.first_row + group * 64, work.head);
        wait_stores_read<0>();  // shared memory must not be released while stores read it
    }
}
