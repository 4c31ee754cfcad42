// backward: the gradients of queries, keys and values in one pass over the scores.
//
// Against the forward stages: a block has the keys and values of KEYS positions and takes the queries of their head,
// QUERIES at a time, with the gradient of their results; the gradients of its keys and values stay in registers. The
// forward pass kept no weights, but for each query the logarithm of its sum of exponentials: the scores are computed
// again, and a weight is final at once. Scores have keys as rows, so that the weights and the gradient of the scores
// are left operands in registers for the products that end in the gradients of values and keys.
//
// The gradient of the queries is a sum over blocks. Each adds its part to global memory, in float, since bfloat16 would
// round at every addition. That product sums over all keys of the block, so the groups exchange the gradient of the
// scores through shared memory: a group writes it, arrives, and starts its product for the values before it waits for
// the other group. Two tiles of it, so that no group waits to write.
//
// The second of three launches; gradients.cuh has the others. Launch: THREADS threads, grid (ceil(n / KEYS), heads),
// dynamic shared memory as Tiles has it. Three-dimensional tensor maps with boxes of 64 columns in the 128-byte
// swizzle: 64 rows of gradients of keys and values, KEYS rows of these, QUERIES rows of queries and of the results'
// gradient.

#ifndef SLOTS
#define SLOTS 2
#endif

#include "gradients.cuh"

#define GROUPS 2
#define KEYS (64 * GROUPS)
#define THREADS (128 * (GROUPS + 1))
#define BYTES_OF_KEYS (KEYS * HEAD * 2)
#define BYTES_OF_SCORES (QUERIES * KEYS * 2)
#define PRODUCER_REGISTERS 24
#define GROUP_REGISTERS 240  // with the producer's as many as at launch

static_assert(UNITS == GROUPS, "each group computes one unit of the queries' gradient");

// Layout of the block's shared memory: keys, values, slots of queries and of the results' gradient, two tiles of the
// scores' gradient, the logarithms and deltas of each slot, barriers.
struct Tiles {
    unsigned char* memory;

    __device__ __forceinline__ unsigned char* keys() const {
        return memory;
    }
    __device__ __forceinline__ unsigned char* values() const {
        return memory + BYTES_OF_KEYS;
    }
    __device__ __forceinline__ unsigned char* queries(unsigned slot) const {
        return memory + 2 * BYTES_OF_KEYS + slot * BYTES_OF_QUERIES;
    }
    __device__ __forceinline__ unsigned char* out_gradient(unsigned slot) const {
        return queries(SLOTS + slot);
    }
    __device__ __forceinline__ unsigned char* score_gradient(unsigned which) const {
        return queries(2 * SLOTS) + which * BYTES_OF_SCORES;
    }
    __device__ __forceinline__ float* logs(unsigned slot) const {
        return reinterpret_cast<float*>(score_gradient(2)) + slot * QUERIES;
    }
    __device__ __forceinline__ float* deltas(unsigned slot) const {
        return logs(SLOTS + slot);
    }
    __device__ __forceinline__ Barrier* keys_full() const {
        return reinterpret_cast<Barrier*>(logs(2 * SLOTS));
    }
    __device__ __forceinline__ Barrier* values_full() const {
        return keys_full() + 1;
    }
    __device__ __forceinline__ Barrier* scores_full(unsigned which) const {
        return keys_full() + 2 + which;
    }
    __device__ __forceinline__ Barrier* queries_full(unsigned slot) const {
        return keys_full() + 4 + slot;
    }
    __device__ __forceinline__ Barrier* queries_empty(unsigned slot) const {
        return queries_full(SLOTS + slot);
    }
    __device__ __forceinline__ Barrier* out_full(unsigned slot) const {
        return queries_full(2 * SLOTS + slot);
    }
    __device__ __forceinline__ Barrier* out_empty(unsigned slot) const {
        return queries_full(3 * SLOTS + slot);
    }
};

// Loads a tile of ROWS rows of a head, 64 columns at a time.
template <int ROWS>
__device__ __forceinline__ void load_rows(unsigned char* to, const CUtensorMap* map, int row, int head, Barrier* full) {
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) {
        load_tile(to + piece * (ROWS * 128), map, piece * 64, row, head, full);
    }
}

// One lane arrives for its warp, after all of its stores.
__device__ __forceinline__ void arrive_as_warp(Barrier* barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        barrier_arrive(barrier);
    }
}

// What a group computes: the gradients of 64 keys and their values. Each thread has two keys: `key` and the one eight
// rows below.
struct Group {
    const Tiles& tiles;
    unsigned number;
    int key, length;
    float4* sums;  // of this thread, in the first tile of queries
    RingTurn<SLOTS> turn;
    RingTurn<2> scores_turn;
    float of_keys[HEAD / 2] = {}, of_values[HEAD / 2] = {};

    // Starts the products of the group's rows of keys or values with all rows of a tile, along the columns of both.
    __device__ __forceinline__ void start_rows(float (&products)[QUERIES / 2], const unsigned char* left,
                                               const unsigned char* right) {
        const unsigned long long a = tile_descriptor(left + number * (64 * 128));
        const unsigned long long b = tile_descriptor(right);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < HEAD / 16; ++step) {
            multiply_bf16(products, a + step / 4 * (KEYS * 8) + step % 4 * 2,
                          b + step / 4 * (QUERIES * 8) + step % 4 * 2, step > 0);
        }
        wgmma_commit();
    }

    // Starts the product of the weights with the results' gradient, or of the scores' gradient with the queries.
    __device__ __forceinline__ void start_sums(float (&products)[HEAD / 2], const unsigned (&left)[QUERIES / 16][4],
                                               const unsigned char* right) {
        const unsigned long long b = columns_descriptor(right, QUERIES * 128);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < QUERIES / 16; ++step) {
            multiply_bf16(products, left[step], b + step * 128, true);
        }
        wgmma_commit();
    }

    // Starts the group's unit of the queries' gradient.
    __device__ __forceinline__ void start_queries(float (&unit)[32]) {
        barrier_wait(tiles.scores_full(scores_turn.slot), scores_turn.parity);
        const unsigned char* const scores = tiles.score_gradient(scores_turn.slot);
        scores_turn.next();
        const unsigned long long a = columns_descriptor(scores + number / PIECES * (KEYS * 128), 0);
        const unsigned long long b = columns_descriptor(tiles.keys() + number % PIECES * (KEYS * 128), 0);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < KEYS / 16; ++step) {
            multiply_columns(unit, a + step * 128, b + step * 128, step > 0);
        }
        wgmma_commit();
    }

    __device__ __forceinline__ void add_queries(const float (&unit)[32], int tile) {
        float4* const to = sums + static_cast<size_t>(tile) * (UNITS * 1024);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            add_to(to + 128 * j, unit[4 * j], unit[4 * j + 1], unit[4 * j + 2], unit[4 * j + 3]);
        }
    }

    // Turns scores into weights. `masked`: some query must not see some key.
    __device__ __forceinline__ void weigh(float (&scores)[QUERIES / 2], int first_query, bool masked) {
        const float2* const logs = reinterpret_cast<const float2*>(tiles.logs(turn.slot)) + threadIdx.x % 4;
        if (masked) {
#pragma unroll
            for (int i = 0; i < QUERIES / 2; ++i) {
                const int query = first_query + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2, own = key + i / 2 % 2 * 8;
                scores[i] = own < length && (!CAUSAL || own <= query) ? scores[i] : -INFINITY;
            }
        }
#pragma unroll
        for (int j = 0; j < QUERIES / 8; ++j) {
            const float2 log = logs[4 * j];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float& score = scores[4 * j + i];
                score = power_of_two(fmaf(score, SCORE_FACTOR, i % 2 ? -log.y : -log.x));
            }
        }
    }

    __device__ __forceinline__ void round_weights(const float (&weights)[QUERIES / 2],
                                                  unsigned (&rounded)[QUERIES / 16][4]) {
#pragma unroll
        for (int i = 0; i < QUERIES / 4; ++i) {
            rounded[i / 4][i % 4] = pack_bf16(weights[2 * i], weights[2 * i + 1]);
        }
    }

    // Rounds the gradient of the scores: the weights times their own gradient less delta.
    __device__ __forceinline__ void differentiate(const float (&weights)[QUERIES / 2],
                                                  const float (&of_weights)[QUERIES / 2],
                                                  unsigned (&rounded)[QUERIES / 16][4]) {
        const float2* const deltas = reinterpret_cast<const float2*>(tiles.deltas(turn.slot)) + threadIdx.x % 4;
#pragma unroll
        for (int j = 0; j < QUERIES / 8; ++j) {
            const float2 delta = deltas[4 * j];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int i = 4 * j + 2 * half;
                rounded[j / 2][j % 2 * 2 + half] =
                    pack_bf16(weights[i] * (of_weights[i] - delta.x), weights[i + 1] * (of_weights[i + 1] - delta.y));
            }
        }
    }

    // Stores the group's rows of the scores' gradient, 64 queries in each 128 bytes.
    __device__ __forceinline__ void store_scores(const unsigned (&rounded)[QUERIES / 16][4]) {
        const unsigned lane = threadIdx.x % 32;
        const unsigned row = number * 64 + threadIdx.x % 128 / 32 * 16 + lane % 16;
        const unsigned to = shared_address(tiles.score_gradient(scores_turn.slot)) + row * 128;
#pragma unroll
        for (int step = 0; step < QUERIES / 16; ++step) {
            const unsigned chunk = (step % 4 * 2 + lane / 16) ^ (row % 8);
            store_matrices(to + step / 4 * (KEYS * 128) + chunk * 16, rounded[step][0], rounded[step][1],
                           rounded[step][2], rounded[step][3]);
        }
    }

    // Takes tiles of queries from `first` on. In those before `masked` some query must not see some key.
    __device__ __forceinline__ void take_tiles(int first, int masked, int end) {
        barrier_wait(tiles.keys_full(), 0);
        barrier_wait(tiles.values_full(), 0);
        for (int tile = first; tile < end; ++tile) {
            float scores[QUERIES / 2], of_weights[QUERIES / 2], unit[32];
            unsigned weights[QUERIES / 16][4], rounded[QUERIES / 16][4];
            barrier_wait(tiles.queries_full(turn.slot), turn.parity);
            start_rows(scores, tiles.keys(), tiles.queries(turn.slot));
            barrier_wait(tiles.out_full(turn.slot), turn.parity);
            start_rows(of_weights, tiles.values(), tiles.out_gradient(turn.slot));
            wgmma_wait<1>();
            weigh(scores, tile * QUERIES, tile < masked);
            wgmma_wait<0>();
            differentiate(scores, of_weights, rounded);
            store_scores(rounded);
            round_weights(scores, weights);
            fence_async_proxy();
            arrive_as_warp(tiles.scores_full(scores_turn.slot));
            start_sums(of_values, weights, tiles.out_gradient(turn.slot));
            start_queries(unit);
            wgmma_wait<1>();
            barrier_arrive(tiles.out_empty(turn.slot));
            start_sums(of_keys, rounded, tiles.queries(turn.slot));
            wgmma_wait<1>();
            add_queries(unit, tile);
            wgmma_wait<0>();
            barrier_arrive(tiles.queries_empty(turn.slot));
            turn.next();
        }
    }

    // Stores the gradients in place of the keys and values, then to the arrays. Rows outside are omitted.
    __device__ __forceinline__ void store(const CUtensorMap* dk, const CUtensorMap* dv, int first_key, int head) {
        unsigned char* const rows[2] = {tiles.keys() + number * (64 * 128), tiles.values() + number * (64 * 128)};
        sync_threads<128 * GROUPS>(1);  // no group reads keys any more
        store_rounded(rows[0], of_keys, SCALE, KEYS * 128);
        store_rounded(rows[1], of_values, 1.0f, KEYS * 128);
        fence_async_proxy();
        sync_threads<128>(2 + number);
        if (threadIdx.x % 128 == 0) {
#pragma unroll
            for (int piece = 0; piece < PIECES; ++piece) {
                store_tile(dk, rows[0] + piece * (KEYS * 128), piece * 64, first_key + number * 64, head);
                store_tile(dv, rows[1] + piece * (KEYS * 128), piece * 64, first_key + number * 64, head);
            }
            commit_stores();
            wait_stores_read<0>();
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    backward(const __grid_constant__ CUtensorMap dk, const __grid_constant__ CUtensorMap dv,
             const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
             const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap out_gradient,
             float4* __restrict__ sums, const float* __restrict__ logs, const float* __restrict__ deltas, int n) {
    extern __shared__ __align__(1024) unsigned char memory[];

    const Tiles tiles = {memory};
    if (threadIdx.x == 0) {
        barrier_init(tiles.keys_full(), 1);
        barrier_init(tiles.values_full(), 1);
        for (unsigned which = 0; which < 2; ++which) {
            barrier_init(tiles.scores_full(which), 4 * GROUPS);
        }
        for (unsigned slot = 0; slot < SLOTS; ++slot) {
            barrier_init(tiles.queries_full(slot), 1);
            barrier_init(tiles.out_full(slot), 1);
            barrier_init(tiles.queries_empty(slot), 128 * GROUPS);
            barrier_init(tiles.out_empty(slot), 128 * GROUPS);
        }
        fence_barrier_init();
    }
    __syncthreads();

    const int first_key = blockIdx.x * KEYS, head = blockIdx.y;
    const int first = CAUSAL ? first_key / QUERIES : 0, end = (n + QUERIES - 1) / QUERIES;
    const unsigned group = threadIdx.x / 128;
    if (group == GROUPS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x % 128 == 0) {
            barrier_expect(tiles.keys_full(), BYTES_OF_KEYS);
            load_rows<KEYS>(tiles.keys(), &k, first_key, head, tiles.keys_full());
            barrier_expect(tiles.values_full(), BYTES_OF_KEYS);
            load_rows<KEYS>(tiles.values(), &v, first_key, head, tiles.values_full());
            RingTurn<SLOTS> turn;
            for (int tile = first; tile < end; ++tile) {
                const size_t place = (static_cast<size_t>(head) * end + tile) * QUERIES;
                Barrier* full = tiles.queries_full(turn.slot);
                barrier_wait(tiles.queries_empty(turn.slot), turn.parity ^ 1);
                barrier_expect(full, BYTES_OF_QUERIES + 4 * QUERIES);
                load_rows<QUERIES>(tiles.queries(turn.slot), &q, tile * QUERIES, head, full);
                load_bytes(tiles.logs(turn.slot), logs + place, 4 * QUERIES, full);
                full = tiles.out_full(turn.slot);
                barrier_wait(tiles.out_empty(turn.slot), turn.parity ^ 1);
                barrier_expect(full, BYTES_OF_QUERIES + 4 * QUERIES);
                load_rows<QUERIES>(tiles.out_gradient(turn.slot), &out_gradient, tile * QUERIES, head, full);
                load_bytes(tiles.deltas(turn.slot), deltas + place, 4 * QUERIES, full);
                turn.next();
            }
        }
    } else {
        take_registers<GROUP_REGISTERS>();
        const int key = first_key + group * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
        float4* const own_sums =
            sums + (static_cast<size_t>(head) * end * UNITS + group) * 1024 + threadIdx.x % 128;
        Group own = {tiles, group, key, n, own_sums};
        own.take_tiles(first, first_key + KEYS > n ? end : CAUSAL ? first + KEYS / QUERIES : 0, end);
        own.store(&dk, &dv, first_key, head);
    }
}
