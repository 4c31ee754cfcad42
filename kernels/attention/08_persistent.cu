// persistent: a block takes one tile of queries after the other, and nothing waits between two of them.
//
// Against longest_first: there a block begins with waiting for its queries and first keys, computes its first weights
// while no product of its group executes, and ends with its last product and its store. No other block overlaps with
// that, since one fills an SM; with few keys it is half of a block's time. Here as many blocks start as run at once, and
// the tiles of queries are one sequence: a group starts the first scores of the next tile before the last product of
// this one, and computes the next weights while that product is executing, as between two tiles of keys. Meanwhile the
// producer requests the next tiles: queries as early as after the first keys and values of the tile before, since those
// requested right before their keys arrive late.
//
// The order of the tiles decides when memory is read. In full attention the tiles of a head follow one another, so that
// blocks that execute at the same time share keys and values, and new ones are needed at an even rate. If each block
// took all tiles of its own heads, all blocks would begin a new head at the same time, and wait for memory. In causal
// attention the tiles are taken in sections of a quarter as many heads as there are blocks, or as have keys and values
// that stay in L2: the tiles with the most keys first, and in every other round by the blocks in reverse order, so that
// a block with the most keys in one round has the fewest in the next.
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

// The tiles of queries that this block takes, of `all`: one in each round.
__device__ __forceinline__ int rounds(int all) {
    const int block = blockIdx.x, blocks = gridDim.x;
#if CAUSAL
    const int whole = all / blocks, left = all % blocks;
    return whole + ((whole % 2 ? blocks - 1 - block : block) < left);
#else
    return (all - block + blocks - 1) / blocks;
#endif
}

// The tile of queries that this block takes in a round: `count` tiles of keys of a head, of which those from `whole` on
// have keys that some query must not see.
struct Work {
    int head, first_row, count, whole;

    __device__ __forceinline__ Work(int round, int heads, int length) {
        const int block = blockIdx.x, blocks = gridDim.x;
        const int tiles = (length + QUERIES - 1) / QUERIES;
#if CAUSAL
        const int number = round * blocks + (round % 2 ? blocks - 1 - block : block);
        const int in_section = max(1, min(BYTES_IN_L2 / (4 * HEAD) / length, blocks / 4));
        const int first_head = number / (in_section * tiles) * in_section;
        const int together = min(in_section, heads - first_head);
        const int at = number - first_head * tiles;
        first_row = (tiles - 1 - at / together) * QUERIES;
        head = first_head + at % together;
#else
        const int number = block + round * blocks;
        head = number / tiles;
        first_row = (tiles - 1 - (number - head * tiles)) * QUERIES;
#endif
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

// Turns the first scores of a tile of queries into weights.
__device__ __forceinline__ void weigh_first(Group& own, const Work& work, float (&scores)[KEYS / 2]) {
    float shrink[2];
    const int first_key = (work.count - 1) * KEYS;
    if (work.count <= work.whole) {
        own.weigh<false>(scores, shrink, first_key);
    } else {
        own.weigh<true>(scores, shrink, first_key);
    }
}

// Begins the block's first tile of queries, whose first scores nothing overlaps.
__device__ __forceinline__ void begin(Group& own, const Work& work, const Queries& queries) {
    float scores[KEYS / 2];
    if (own.number == GROUPS - 1) {
        own.pass_turn();  // the first group has the first turn
    }
    barrier_wait(queries.full(), queries.parity);
    own.await_turn();
    start_scores(own, queries, scores);
    own.pass_turn();
    wgmma_wait<0>();
    own.release_keys();
    weigh_first(own, work, scores);
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

// The factors that turn the sums of this thread's two rows into the result.
__device__ __forceinline__ void end_sums(const Group& own, float (&factor)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float sum = own.sum[half];
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        sum += __shfl_xor_sync(0xffffffff, sum, 2);
        factor[half] = 1.0f / sum;
    }
}

// The result of a tile of queries, rounded, on its way to memory.
struct Result {
    unsigned packed[HEAD / 4];
    int row, head;
    unsigned char* place;

    __device__ __forceinline__ void pack(const Group& own, const float (&factor)[2], const Work& work) {
#pragma unroll
        for (int i = 0; i < HEAD / 4; ++i) {
            packed[i] = pack_bf16(own.out[2 * i] * factor[i % 2], own.out[2 * i + 1] * factor[i % 2]);
        }
        row = work.first_row + own.number * 64;
        head = work.head;
        place = own.tiles.queries(own.number);
    }

    // Stores it. Waits until the result before has been read from shared memory, which it has been long ago, and not
    // until this one has been.
    __device__ __forceinline__ void put(const Group& own, const CUtensorMap* o) {
        const unsigned lane = threadIdx.x % 32;
        const unsigned at = threadIdx.x % 128 / 32 * 16 + lane % 16;
        if (threadIdx.x % 128 == 0) {
            wait_stores_read<0>();
        }
        sync_threads<128>(1 + own.number);
#pragma unroll
        for (int j = 0; j < HEAD / 8; j += 2) {
            const unsigned* from = packed + 2 * j;
            const unsigned chunk = (j % 8 + lane / 16) ^ (at % 8);
            store_matrices(shared_address(place) + j / 8 * (QUERIES * 128) + at * 128 + chunk * 16, from[0], from[1],
                           from[2], from[3]);
        }
        fence_async_proxy();
        sync_threads<128>(1 + own.number);
        if (threadIdx.x % 128 == 0) {
#pragma unroll
            for (int piece = 0; piece < PIECES; ++piece) {
                store_tile(o, place + piece * (QUERIES * 128), piece * 64, row, head);
            }
            commit_stores();
        }
    }
};

// Ends a tile of queries, and begins the `next` one, whose queries are the next in the ring, in one turn.
__device__ __forceinline__ void turn_over(Group& own, Result& result, const CUtensorMap* o, const Work& work,
                                          const Work& next, Queries& queries) {
    float scores[KEYS / 2], factor[2];
    queries.next();
    barrier_wait(queries.full(), queries.parity);
    own.await_turn();
    start_scores(own, queries, scores);
    own.start_values(work.count > 1);
    own.pass_turn();
    end_sums(own, factor);
    own.row = next.first_row + row_in_tile();
    own.largest[0] = own.largest[1] = -INFINITY;
    own.sum[0] = own.sum[1] = 0.0f;
    wgmma_wait<1>();
    own.release_keys();
    weigh_first(own, next, scores);
    wgmma_wait<0>();
    own.release_values();
    result.pack(own, factor, work);
    result.put(own, o);
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
    const int count = rounds((n + QUERIES - 1) / QUERIES * heads);
    Queries queries = {tiles};
    if (group == GROUPS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x % 128 == 0) {
            Turn keys_turn, values_turn;
            Work next(0, heads, n);
            bring<QUERIES>(queries.memory(0), &q, next.first_row, next.head, queries.full());
            queries.next();
            for (int round = 0; round < count; ++round) {
                const Work work = next;
                for (int tile = work.count - 1; tile >= 0; --tile) {
                    barrier_wait(tiles.keys_empty(keys_turn.slot), keys_turn.parity ^ 1);
                    bring<KEYS>(tiles.keys(keys_turn.slot), &k, tile * KEYS, work.head,
                                tiles.keys_full(keys_turn.slot));
                    keys_turn.next();
                    barrier_wait(tiles.values_empty(values_turn.slot), values_turn.parity ^ 1);
                    bring<KEYS>(tiles.values(values_turn.slot), &v, tile * KEYS, work.head,
                                tiles.values_full(values_turn.slot));
                    values_turn.next();
                    if (tile == work.count - 1 && round + 1 < count) {
                        next = Work(round + 1, heads, n);
                        barrier_wait(queries.empty(), queries.parity ^ 1);
                        bring<QUERIES>(queries.memory(0), &q, next.first_row, next.head, queries.full());
                        queries.next();
                    }
                }
            }
        }
    } else {
        take_registers<REGISTERS>();
        Work work(0, heads, n);
        Group own = {tiles, group, work.first_row + row_in_tile(), n};
        Result result;
        begin(own, work, queries);
        for (int round = 1;; ++round) {
            int tile = work.count - 2;
            for (; tile >= work.whole; --tile) {
                take<true>(own, queries, tile, tile < work.count - 2);
            }
            for (; tile >= 0; --tile) {
                take<false>(own, queries, tile, tile < work.count - 2);
            }
            release(queries.empty());
            if (round == count) {
                break;
            }
            const Work next(round, heads, n);
            turn_over(own, result, &o, work, next, queries);
            work = next;
        }
        own.await_turn();
        own.start_values(work.count > 1);
        if (group < GROUPS - 1) {
            own.pass_turn();
        }
        float factor[2];
        end_sums(own, factor);
        wgmma_wait<0>();
        result.pack(own, factor, work);
        result.put(own, &o);
        if (threadIdx.x % 128 == 0) {
            wait_stores_read<0>();  // shared memory must not be released before
        }
    }
}
