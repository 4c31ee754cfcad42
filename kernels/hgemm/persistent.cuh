// A block that processes one tile after the other; 09_clusters.cu explains why.
//
// A tile is stored while the next one is multiplied: packed as bfloat16 its sums need half of their registers, and the
// others are free for the sums of the next tile.
#pragma once

#ifndef STORES
#define STORES 2
#endif
#define BYTES_OF_STORE (64 * STORE_COLS * 2)
#define BYTES_BESIDE (GROUPS * STORES * BYTES_OF_STORE)

#include "../sgemm/raster.cuh"
#include "specialised.cuh"

#define KEPT (GROUPS <= 2 ? PIECES : 1)  // pieces that are stored later, as registers allow

// Stores a packed piece of a group, through the next of STORES places in shared memory that each group has.
__device__ __forceinline__ void store_piece(const unsigned* packed, const Ring& ring, unsigned& place,
                                            const CUtensorMap* c, unsigned group, int first_row, int first_col) {
    unsigned char* const memory = ring.beside() + (group * STORES + place) * BYTES_OF_STORE;
    const bool first = threadIdx.x % 128 == 0;
    if (first) {
        wait_stores_read<STORES - 1>();
    }
    sync_threads<128>(1 + group);
    write_piece(memory, packed);
    fence_async_proxy();
    sync_threads<128>(1 + group);
    if (first) {
        store_tile(c, memory, first_col, first_row + group * 64);
        commit_stores();
    }
    place = place + 1 == STORES ? 0 : place + 1;
}

__device__ __forceinline__ void take_tiles(unsigned char* memory, const CUtensorMap* c, const CUtensorMap* a,
                                           const CUtensorMap* b, int M, int N, int K) {
    const Ring ring = {memory};
    const int tiles_down = (M + ROWS * CLUSTER - 1) / (ROWS * CLUSTER);
    const int tiles_across = (N + COLS - 1) / COLS;
    const int tiles = tiles_down * tiles_across;
    const int slices = (K + DEPTH - 1) / DEPTH;
    const int first_tile = blockIdx.x / CLUSTER;
    const int step = gridDim.x / CLUSTER;
    const int rank = blockIdx.x % CLUSTER;
    const unsigned group = threadIdx.x / 128;
    const auto first_row_of = [&](TileIndex at) { return (at.row * CLUSTER + rank) * ROWS; };

    Turn turn;
    const TileIndex first = raster<16>(first_tile, tiles_down, tiles_across);
    const int requested = start_ring(ring, turn, a, b, first_row_of(first), first.col * COLS, 0, slices);
    if (group == GROUPS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x == PRODUCER) {
            for (int tile = first_tile; tile < tiles; tile += step) {
                const TileIndex at = raster<16>(tile, tiles_down, tiles_across);
                bring_slices(ring, turn, a, b, first_row_of(at), at.col * COLS, tile == first_tile ? requested : 0,
                             slices);
            }
        }
    } else {
        take_registers<GROUP_REGISTERS>();
        unsigned kept[KEPT][STORE_COLS / 4];  // pieces of the tile before
        unsigned place = 0;
        int row_before = 0;
        int col_before = 0;
        for (int tile = first_tile; tile < tiles; tile += step) {
            const TileIndex at = raster<16>(tile, tiles_down, tiles_across);
            float sums[SUMS];
            multiply_slices<KEPT>(sums, ring, turn, group, slices, [&](int slice) {
                if (tile != first_tile) {
                    store_piece(kept[slice], ring, place, c, group, row_before, col_before + slice * STORE_COLS);
                }
            });
            row_before = first_row_of(at);
            col_before = at.col * COLS;
            if (tile + step >= tiles) {
                store_last_sums(sums, ring, c, group, row_before, col_before);
                break;
            }
#pragma unroll
            for (int piece = 0; piece < KEPT; ++piece) {
                pack_piece(kept[piece], sums + piece * (STORE_COLS / 2));
            }
#pragma unroll
            for (int piece = KEPT; piece < PIECES; ++piece) {
                unsigned packed[STORE_COLS / 4];
                pack_piece(packed, sums + piece * (STORE_COLS / 2));
                store_piece(packed, ring, place, c, group, row_before, col_before + piece * STORE_COLS);
            }
        }
    }
#if CLUSTER > 1
    cluster_sync();  // a block that has ended cannot receive bytes or arrivals
#endif
}
