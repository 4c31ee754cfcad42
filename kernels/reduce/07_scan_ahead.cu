// scan_ahead: a persistent block loads tiles and publishes their sums ahead, and stores a tile once all sums before it
// are known.
//
// Against scan_lookback tiles are loaded and added up before the sums of the tiles before them are known. A producer
// draws tickets and requests tiles from the copy engine, up to STAGES ahead. One warp adds up each tile as soon as it
// has arrived and publishes the sum. Another warp finds the sum before each tile: that of the block's previous tile,
// which it knows, plus the sums of the tiles since then, which were published long ago. So tiles wait in shared memory
// for the sums of other blocks, while the other warps scan and store earlier tiles. Expect the speed of a copy.
//
// Sums are of 32-bit integers and wrap around; they are the same in every run.
//
// Launch: THREADS threads, dynamic shared memory for STAGES tiles.

#include "../common/bulk.cuh"
#include "tile_scan.cuh"

#ifndef STAGES
#define STAGES 7
#endif
#ifndef WORDS
#define WORDS 5  // states of tiles that each lane loads at once
#endif

constexpr unsigned PRODUCER = WARPS, ADDER = WARPS + 1, LOOKER = WARPS + 2;
constexpr int THREADS = 32 * (WARPS + 3);
constexpr int VECTORS_OF_PART = 32 * VECTORS;  // each warp has one part of a tile

// Every thread arrives after its own reads and writes. Lane 0 could arrive for its warp after a __syncwarp, which takes
// as long; but racecheck orders only the accesses of a thread that arrives, not those of the other lanes.
struct Shared {
    Barrier full[STAGES], summed[STAGES], found[STAGES], empty[STAGES];
    Ticket tickets[STAGES];
    int sums[STAGES][WARPS];    // of the parts of a tile
    int before[STAGES][WARPS];  // of everything before a part
};

using Turn = RingTurn<STAGES>;

// One thread: requests tiles until all are taken; the last slot that it fills has a ticket past the last tile.
__device__ __forceinline__ void bring_tiles(Shared& shared, int* ring, const int* __restrict__ in,
                                            unsigned long long* tickets, unsigned tiles, size_t n) {
    Turn turn;
    for (bool more = true; more; turn.next()) {
        // A ticket is drawn when its tile can be loaded at once, because other blocks wait for the tile's sum.
        barrier_wait(&shared.empty[turn.slot], turn.parity ^ 1);
        const Ticket ticket = next_ticket(tickets, tiles + gridDim.x);  // each block draws one past the last tile
        more = ticket.tile < tiles;
        shared.tickets[turn.slot] = ticket;
        const size_t first = static_cast<size_t>(ticket.tile) * TILE;
        const unsigned bytes = more ? static_cast<unsigned>(min(n - first, static_cast<size_t>(TILE)) / 4 * 16) : 0;
        barrier_expect(&shared.full[turn.slot], bytes);
        if (bytes > 0) {
            load_bytes(ring + turn.slot * TILE, in + first, bytes, &shared.full[turn.slot]);
        }
    }
}

// This lane's vector k of a part of the tile in a slot. The array does not end inside a WHOLE tile.
template <bool WHOLE>
__device__ __forceinline__ int4 vector_of(const int* slot, const int* __restrict__ in, unsigned tile, unsigned part, int k,
                                          size_t n) {
    const unsigned in_tile = part * VECTORS_OF_PART + k * 32 + threadIdx.x % 32;
    const size_t i = static_cast<size_t>(tile) * TILE + in_tile * 4;
    return WHOLE || i + 4 <= n ? reinterpret_cast<const int4*>(slot)[in_tile] : load_four(in, i, n);
}

// The sum of a tile; `of_part` becomes the sum of the part that has this lane's number. All lanes of a warp have to
// call it.
template <bool WHOLE>
__device__ __forceinline__ int add_up_parts(int& of_part, const int* slot, const int* __restrict__ in, unsigned tile,
                                            size_t n) {
    int of_tile = 0;
#pragma unroll 4
    for (unsigned part = 0; part < WARPS; ++part) {
        int own = 0;
#pragma unroll
        for (int k = 0; k < VECTORS; ++k) {
            const int4 value = vector_of<WHOLE>(slot, in, tile, part, k, n);
            own += value.x + value.y + value.z + value.w;
        }
        own = __reduce_add_sync(0xffffffffu, own);
        of_part = threadIdx.x % 32 == part ? own : of_part;
        of_tile += own;
    }
    return of_tile;
}

// One warp: adds up each tile and its parts, and publishes the sum of the tile.
__device__ __forceinline__ void add_up_tiles(Shared& shared, const int* ring, const int* __restrict__ in,
                                             TileState* states, unsigned tiles, size_t n) {
    const unsigned lane = threadIdx.x % 32;
    for (Turn turn;; turn.next()) {
        barrier_wait(&shared.full[turn.slot], turn.parity);
        const Ticket ticket = shared.tickets[turn.slot];
        if (ticket.tile >= tiles) {
            return;
        }
        const int* const slot = ring + turn.slot * TILE;
        int of_part = 0;
        const int of_tile = is_whole(ticket.tile, n) ? add_up_parts<true>(of_part, slot, in, ticket.tile, n)
                                                     : add_up_parts<false>(of_part, slot, in, ticket.tile, n);
        if (lane == 0) {
            publish(states + ticket.tile, SUM_OF_TILE, ticket.launch, of_tile);
        }
        if (lane < WARPS) {
            shared.sums[turn.slot][lane] = of_part;
        }
        barrier_arrive(&shared.summed[turn.slot]);
    }
}

// The sum of the published sums of tiles `from` to `to`, once all are published. All lanes of a warp have to call it.
__device__ __forceinline__ int sum_of_tiles(const TileState* states, unsigned launch, unsigned from, unsigned to) {
    int own = 0;
    for (unsigned first = from; first < to; first += 32 * WORDS) {
        TileState state[WORDS];
#pragma unroll
        for (int k = 0; k < WORDS; ++k) {
            const unsigned tile = first + 32 * k + threadIdx.x % 32;
            state[k] = tile < to ? *static_cast<const volatile TileState*>(states + tile) : 0;
        }
#pragma unroll
        for (int k = 0; k < WORDS; ++k) {
            const unsigned tile = first + 32 * k + threadIdx.x % 32;
            while (tile < to && kind_of(state[k], launch) == 0) {
                state[k] = *static_cast<const volatile TileState*>(states + tile);
            }
            own += static_cast<int>(state[k]);
        }
    }
    return __reduce_add_sync(0xffffffffu, own);
}

// One warp: finds the sum before each part of each tile.
__device__ __forceinline__ void look_back(Shared& shared, const TileState* states, unsigned tiles) {
    const unsigned lane = threadIdx.x % 32;
    unsigned known = 0;
    int before = 0;  // the sum of the tiles before `known`
    for (Turn turn;; turn.next()) {
        barrier_wait(&shared.full[turn.slot], turn.parity);
        const Ticket ticket = shared.tickets[turn.slot];
        if (ticket.tile >= tiles) {
            return;
        }
        before += sum_of_tiles(states, ticket.launch, known, ticket.tile);
        known = ticket.tile;
        barrier_wait(&shared.summed[turn.slot], turn.parity);
        const int own = lane < WARPS ? shared.sums[turn.slot][lane] : 0;
        const int scanned = scanned_lanes(own);
        if (lane < WARPS) {
            shared.before[turn.slot][lane] = before + scanned - own;
        }
        barrier_arrive(&shared.found[turn.slot]);
    }
}

// One warp: scans its part of the tile in a slot, frees the slot, and stores the part.
template <bool WHOLE>
__device__ __forceinline__ void scan_and_store(Shared& shared, const int* ring, Turn turn, int* __restrict__ out,
                                               const int* __restrict__ in, unsigned tile, size_t n) {
    const unsigned warp = threadIdx.x / 32;
    int4 values[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        values[k] = vector_of<WHOLE>(ring + turn.slot * TILE, in, tile, warp, k, n);
    }
    scan_part(values);
    barrier_wait(&shared.found[turn.slot], turn.parity);
    const int before = shared.before[turn.slot][warp];
    barrier_arrive(&shared.empty[turn.slot]);
    store_part<WHOLE>(out, values, before, tile, n);
}

// WARPS warps: scan and store each tile.
__device__ __forceinline__ void scan_tiles(Shared& shared, const int* ring, int* __restrict__ out,
                                           const int* __restrict__ in, unsigned tiles, size_t n) {
    for (Turn turn;; turn.next()) {
        barrier_wait(&shared.full[turn.slot], turn.parity);
        const unsigned tile = shared.tickets[turn.slot].tile;
        if (tile >= tiles) {
            return;
        }
        if (is_whole(tile, n)) {
            scan_and_store<true>(shared, ring, turn, out, in, tile, n);
        } else {
            scan_and_store<false>(shared, ring, turn, out, in, tile, n);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    scan_ahead(int* __restrict__ out, const int* __restrict__ in, TileState* states, unsigned long long* tickets,
               size_t n) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ Shared shared;
    int* const ring = reinterpret_cast<int*>(memory);
    const unsigned tiles = static_cast<unsigned>((n + TILE - 1) / TILE);
    if (threadIdx.x == 0) {
        for (unsigned slot = 0; slot < STAGES; ++slot) {
            barrier_init(&shared.full[slot], 1);
            barrier_init(&shared.summed[slot], 32);
            barrier_init(&shared.found[slot], 32);
            barrier_init(&shared.empty[slot], BLOCK);
        }
        fence_barrier_init();
    }
    __syncthreads();
    const unsigned warp = threadIdx.x / 32;
    if (warp == PRODUCER) {
        if (threadIdx.x % 32 == 0) {
            bring_tiles(shared, ring, in, tickets, tiles, n);
        }
    } else if (warp == ADDER) {
        add_up_tiles(shared, ring, in, states, tiles, n);
    } else if (warp == LOOKER) {
        look_back(shared, states, tiles);
    } else {
        scan_tiles(shared, ring, out, in, tiles, n);
    }
}
