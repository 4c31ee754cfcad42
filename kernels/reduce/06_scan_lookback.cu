// scan_lookback: a tile publishes its own sum at once, and looks back over as many earlier tiles as it needs.
//
// Against scan_chained no tile waits for a chain: a tile adds up what its predecessors have published, back to the
// first one that has published the sum of everything up to its end; the others have published their own sums. A warp
// reads 32 of them at once. This is decoupled look-back (D. Merrill, M. Garland, "Single-pass parallel prefix scan with
// decoupled look-back", NVIDIA NVR-2016-002). Expect the speed of a copy.
//
// Sums are of 32-bit integers and wrap around; they are the same in every run, however far tiles look back.

#include "tile_scan.cuh"

// The sum of all tiles before this one. All lanes of a warp have to call it.
__device__ __forceinline__ int look_back(const TileState* states, Ticket ticket) {
    const int lane = threadIdx.x % 32;
    int before = 0;
    for (int newest = static_cast<int>(ticket.tile) - 1; newest >= 0; newest -= 32) {
        const int tile = newest - lane;  // before the first tile there is nothing to add
        TileState state = 0;
        unsigned kind = SUM_TO_TILE;
        if (tile >= 0) {
            do {
                state = *static_cast<const volatile TileState*>(states + tile);
                kind = kind_of(state, ticket.launch);
            } while (kind == 0);
        }
        const unsigned complete = __ballot_sync(0xffffffffu, kind == SUM_TO_TILE);
        const int last = complete != 0 ? __ffs(complete) - 1 : 31;
        before += __reduce_add_sync(0xffffffffu, lane <= last ? static_cast<int>(state) : 0);
        if (complete != 0) {
            break;
        }
    }
    return before;
}

extern "C" __global__ void __launch_bounds__(BLOCK, 1024 / BLOCK)
    scan_lookback(int* __restrict__ out, const int* __restrict__ in, TileState* states, unsigned long long* tickets,
                  size_t n) {
    __shared__ int before_tile;
    const Ticket ticket = draw_ticket(tickets);
    const TileScan scan = scan_tile(in, ticket.tile, n);
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0) {
            publish(states + ticket.tile, SUM_OF_TILE, ticket.launch, scan.sum);
        }
        const int before = look_back(states, ticket);
        if (threadIdx.x == 0) {
            publish(states + ticket.tile, SUM_TO_TILE, ticket.launch, before + scan.sum);
            before_tile = before;
        }
    }
    __syncthreads();
    store_tile(out, scan, before_tile, ticket.tile, n);
}
