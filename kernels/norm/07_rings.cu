// rings: persistent clusters that process one row after the other, with rows loaded and statistics exchanged ahead.
//
// Against clusters no block waits for its start, for a slower block of its cluster, or for the latency of an exchange.
// A block has the same columns of every row, so that their weights and biases stay in its shared memory. The copy
// engine loads the block's parts of rows into a ring buffer of STAGES slots. A warp sends the statistics of its share
// of a row to every block AHEAD rows before it normalises that row: by a store whose bytes the receiver's barrier
// counts, without a fence or a barrier of the cluster. One more warp merges the received statistics, always in the
// order of the warps. Rows are assigned by tickets, since not all clusters run at once, nor equally fast. Expect the
// roof for long rows.
//
// Launch: THREADS threads, dynamic shared memory for STAGES parts of a row and as many more as the norm has parameters.

#include "../common/bulk.cuh"
#include "quick_norms.cuh"

#ifndef NORM
#define NORM Softmax
#endif
#ifndef ELEMENT
#define ELEMENT bfloat16
#endif
#ifndef BLOCK
#define BLOCK 128  // threads that normalise; two more warps load rows and merge statistics
#endif
#ifndef VECTORS
#define VECTORS 1
#endif
#ifndef CLUSTER
#define CLUSTER 2
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef AHEAD
#define AHEAD 1
#endif

static_assert(CLUSTER > 1, "a block alone is no cluster, and sends nothing");
static_assert(STAGES > AHEAD, "the rows whose statistics are under way wait in the ring");

using Chosen = Quick<NORM>;

constexpr int WARPS = BLOCK / 32;
constexpr int THREADS = BLOCK + 64;
constexpr int PRODUCER = WARPS, MERGER = WARPS + 1;
constexpr int PART = BLOCK * VECTORS * PER_VECTOR<ELEMENT>;  // elements of a row that this block has
constexpr int SENDERS = CLUSTER * WARPS;
constexpr int MAILS = 2 * (AHEAD + 1);  // rows whose statistics may be unread, so that no sender waits
// The first block of a cluster draws a row for a slot once it has stored the previous row in that slot. By then all
// blocks have read the statistics of MAILS rows before, and so have stored the row STAGES before those.
constexpr int DRAWN = 2 * STAGES + MAILS;

struct Shared {
    float4 statistics[MAILS][SENDERS];
    int4 rows[DRAWN];
    Factors factors[STAGES];
    Barrier full[STAGES], merged[STAGES];
    Barrier empty[STAGES];  // each reading thread arrives: racecheck orders only its own reads
    Barrier came[MAILS], read[MAILS];
    Barrier drawn[DRAWN];
};

// One thread: requests this block's part of each row of the cluster, until all rows are taken; the last slot that it
// fills has a row index past the end. Rows that are not a multiple of 16 bytes begin at any address: the threads that
// need them load them.
__device__ __forceinline__ void bring_rows(Shared& shared, uint4* ring, const ELEMENT* __restrict__ in,
                                           unsigned long long* tickets, int rows, int n) {
    const unsigned rank = blockIdx.x % CLUSTER;
    const int begin = rank * PART;
    const int part = n % PER_VECTOR<ELEMENT> == 0 ? max(0, min(n - begin, PART)) : 0;
    const unsigned bytes = part * sizeof(ELEMENT);
    for (int slot = 0; slot < DRAWN; ++slot) {
        barrier_expect(&shared.drawn[slot], sizeof(int4));
    }
    RingTurn<STAGES> turn;
    RingTurn<DRAWN> drawn;
    for (bool more = true; more; turn.next(), drawn.next()) {
        unsigned long long ticket = 0;
        if (rank == 0) {
            ticket = atomicAdd(tickets, 1ull) % (rows + gridDim.x / CLUSTER);  // each cluster draws one past the end
        }
        barrier_wait(&shared.empty[turn.slot], turn.parity ^ 1);
        if (rank == 0) {
            for (int block = 0; block < CLUSTER; ++block) {
                send_to_block(address_in_block(&shared.rows[drawn.slot], block),
                              make_float4(__int_as_float(static_cast<int>(ticket)), 0.0f, 0.0f, 0.0f),
                              address_in_block(&shared.drawn[drawn.slot], block));
            }
        }
        barrier_wait(&shared.drawn[drawn.slot], drawn.parity);
        const int row = shared.rows[drawn.slot].x;
        more = row < rows;
        barrier_expect(&shared.drawn[drawn.slot], sizeof(int4));
        barrier_expect(&shared.full[turn.slot], more ? bytes : 0);
        if (more && bytes > 0) {
            load_bytes(ring + turn.slot * BLOCK * VECTORS, in + static_cast<size_t>(row) * n + begin, bytes,
                       &shared.full[turn.slot]);
        }
    }
}

// One warp: merges the statistics that all warps of the cluster have sent for each row.
__device__ __forceinline__ void merge_rows(Shared& shared, int rows, int n) {
    const int lane = threadIdx.x % 32;
    if (lane == 0) {
        for (int slot = 0; slot < MAILS; ++slot) {
            barrier_expect(&shared.came[slot], SENDERS * sizeof(float4));
        }
    }
    RingTurn<STAGES> coming;
    RingTurn<DRAWN> drawn;
    for (RingTurn<MAILS> turn;; turn.next(), coming.next(), drawn.next()) {
        barrier_wait(&shared.full[coming.slot], coming.parity);
        if (shared.rows[drawn.slot].x >= rows) {
            return;
        }
        barrier_wait(&shared.came[turn.slot], turn.parity);
        Statistics row = nothing<Chosen>();
#pragma unroll
        for (int sender = lane; sender < SENDERS; sender += 32) {
            const float4 sent = shared.statistics[turn.slot][sender];
            row = Chosen::merge(row, {sent.x, sent.y, sent.z});
        }
        if (lane == 0) {
            barrier_expect(&shared.came[turn.slot], SENDERS * sizeof(float4));
        }
        __syncwarp();
        if (lane < CLUSTER) {
            barrier_arrive_at(&shared.read[turn.slot], lane);
        }
        row = Chosen::merge_warp(row);
        if (lane == 0) {
            shared.factors[coming.slot] = Chosen::factors(row, n);
            barrier_arrive(&shared.merged[coming.slot]);
        }
    }
}

// A vector of a row: from the ring buffer if it was loaded there, else from global memory; zeros beyond the row.
template <bool WHOLE>
__device__ __forceinline__ uint4 take_vector(const uint4* in_ring, const ELEMENT* __restrict__ row, int first, int n) {
    if (WHOLE || (n % PER_VECTOR<ELEMENT> == 0 && first < n)) {
        return *in_ring;
    }
    return load_vector(row, first, n);
}

// WARPS warps: compute the statistics of each row, and AHEAD rows later normalise and store it. WHOLE: all parts of a
// row are full.
template <bool WHOLE>
__device__ __forceinline__ void normalise_rows(Shared& shared, uint4* ring, ELEMENT* __restrict__ out,
                                               const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ weight,
                                               const ELEMENT* __restrict__ bias, int rows, int n) {
    constexpr int STEP = BLOCK * PER_VECTOR<ELEMENT>;
    const unsigned lane = threadIdx.x % 32;
    const unsigned rank = blockIdx.x % CLUSTER;
    const unsigned sender = rank * WARPS + threadIdx.x / 32;
    const int first = rank * PART + threadIdx.x * PER_VECTOR<ELEMENT>;
    ring += threadIdx.x;
    // This thread's weights and biases; no other thread reads them.
    uint4* const weights = ring + STAGES * BLOCK * VECTORS;
    uint4* const biases = weights + BLOCK * VECTORS;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        if (Chosen::PARAMETERS > 0) {
            weights[k * BLOCK] = load_vector(weight, first + k * STEP, n);
        }
        if (Chosen::PARAMETERS > 1) {
            biases[k * BLOCK] = load_vector(bias, first + k * STEP, n);
        }
    }
    RingTurn<STAGES> coming, going;
    RingTurn<MAILS> sent;
    RingTurn<DRAWN> next, last;
    int ahead = 0;  // rows whose statistics have been sent and that have not been stored
    for (bool more = true; more || ahead > 0;) {
        if (more) {
            barrier_wait(&shared.full[coming.slot], coming.parity);
            more = shared.rows[next.slot].x < rows;
        }
        if (more) {
            const size_t offset = static_cast<size_t>(shared.rows[next.slot].x) * n;
            uint4 row[VECTORS];
#pragma unroll
            for (int k = 0; k < VECTORS; ++k) {
                row[k] = take_vector<WHOLE>(ring + (coming.slot * VECTORS + k) * BLOCK, in + offset, first + k * STEP, n);
            }
            const Statistics own = Chosen::merge_warp(
                WHOLE ? statistics_of<Chosen, ELEMENT>(row, 0, 0, PER_VECTOR<ELEMENT>)
                      : statistics_of<Chosen, ELEMENT>(row, first, STEP, n));
            barrier_wait(&shared.read[sent.slot], sent.parity ^ 1);
            if (lane < CLUSTER) {
                send_to_block(address_in_block(&shared.statistics[sent.slot][sender], lane),
                              make_float4(own.sum, own.centre, own.count, 0.0f),
                              address_in_block(&shared.came[sent.slot], lane));
            }
            coming.next();
            sent.next();
            next.next();
            ++ahead;
        }
        if (ahead > AHEAD || (!more && ahead > 0)) {
            const size_t offset = static_cast<size_t>(shared.rows[last.slot].x) * n;
            barrier_wait(&shared.merged[going.slot], going.parity);
            const Factors factors = shared.factors[going.slot];
#pragma unroll
            for (int k = 0; k < VECTORS; ++k) {
                const int column = first + k * STEP;
                float x[PER_VECTOR<ELEMENT>];
                const uint4 vector =
                    take_vector<WHOLE>(ring + (going.slot * VECTORS + k) * BLOCK, in + offset, column, n);
                const uint4 none = make_uint4(0, 0, 0, 0);
                normalise_vector<Chosen, ELEMENT>(x, vector, factors, Chosen::PARAMETERS > 0 ? weights[k * BLOCK] : none,
                                                Chosen::PARAMETERS > 1 ? biases[k * BLOCK] : none);
                if (WHOLE) {
                    *reinterpret_cast<uint4*>(out + offset + column) = packed(x);
                } else {
                    store_vector(out + offset, column, n, x);
                }
            }
            barrier_arrive(&shared.empty[going.slot]);
            going.next();
            last.next();
            --ahead;
        }
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER) __launch_bounds__(THREADS, 1)
    rings(ELEMENT* __restrict__ out, const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ weight,
          const ELEMENT* __restrict__ bias, unsigned long long* tickets, int rows, int n) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ __align__(16) Shared shared;
    uint4* const ring = reinterpret_cast<uint4*>(memory);
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < STAGES; ++slot) {
            barrier_init(&shared.full[slot], 1);
            barrier_init(&shared.empty[slot], BLOCK);
            barrier_init(&shared.merged[slot], 1);
        }
        for (int slot = 0; slot < MAILS; ++slot) {
            barrier_init(&shared.came[slot], 1);
            barrier_init(&shared.read[slot], CLUSTER);
        }
        for (int slot = 0; slot < DRAWN; ++slot) {
            barrier_init(&shared.drawn[slot], 1);
        }
        fence_barrier_init();
    }
    cluster_sync();
    const int warp = threadIdx.x / 32;
    if (warp == PRODUCER) {
        if (threadIdx.x % 32 == 0) {
            bring_rows(shared, ring, in, tickets, rows, n);
        }
    } else if (warp == MERGER) {
        merge_rows(shared, rows, n);
    } else if (n == CLUSTER * PART) {
        normalise_rows<true>(shared, ring, out, in, weight, bias, rows, CLUSTER * PART);
    } else {
        normalise_rows<false>(shared, ring, out, in, weight, bias, rows, n);
    }
    cluster_sync();  // a block that has ended cannot receive statistics
}
