// scan_chained: running sums in one pass; each tile waits for its predecessor to publish the sum of all tiles before.
//
// Scanning the tiles, then their sums, then adding these would read the array twice. Here a tile stays in registers
// until the tile before it has published the sum up to its end, so that each element is read once and written once. But
// the sums go from block to block, and each step takes a round trip through L2: expect the time of that trip for every
// tile, whatever the bandwidth.
//
// Sums are of 32-bit integers and wrap around; they are the same in every run.

#include "tile_scan.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK)
    scan_chained(int* __restrict__ out, const int* __restrict__ in, TileState* states, unsigned long long* tickets,
                 size_t n) {
    __shared__ int before_tile;
    const Ticket ticket = draw_ticket(tickets);
    const TileScan scan = scan_tile(in, ticket.tile, n);
    if (threadIdx.x == 0) {
        int before = 0;
        if (ticket.tile > 0) {
            TileState state;
            do {
                state = *static_cast<volatile TileState*>(states + ticket.tile - 1);
            } while (kind_of(state, ticket.launch) != SUM_TO_TILE);
            before = static_cast<int>(state);
        }
        publish(states + ticket.tile, SUM_TO_TILE, ticket.launch, before + scan.sum);
        before_tile = before;
    }
    __syncthreads();
    store_tile(out, scan, before_tile, ticket.tile, n);
}
