// A block that processes one tile after the other; 09_clusters.cu explains why.
#pragma once

#include "../sgemm/raster.cuh"
#include "specialised.cuh"

__device__ __forceinline__ void take_tiles(unsigned char* memory, const CUtensorMap* c, const CUtensorMap* a,
                                           const CUtensorMap* b, int M, int N, int K) {
    prefetch_maps(a, b);
    const Ring ring = new_ring(memory);
    const int tiles_down = (M + ROWS * CLUSTER - 1) / (ROWS * CLUSTER);
    const int tiles_across = (N + COLS - 1) / COLS;
    const int tiles = tiles_down * tiles_across;
    const int slices = (K + DEPTH - 1) / DEPTH;
    const int first_tile = blockIdx.x / CLUSTER;
    const int step = gridDim.x / CLUSTER;
    const int rank = blockIdx.x % CLUSTER;
    const unsigned group = threadIdx.x / 128;

    Turn turn;
    if (group == GROUPS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x % 128 == 0) {
            for (int tile = first_tile; tile < tiles; tile += step) {
                const TileIndex at = raster<16>(tile, tiles_down, tiles_across);
                bring_slices(ring, turn, a, b, (at.row * CLUSTER + rank) * ROWS, at.col * COLS, 0, slices);
            }
        }
    } else {
        take_registers<GROUP_REGISTERS>();
        for (int tile = first_tile; tile < tiles; tile += step) {
            const TileIndex at = raster<16>(tile, tiles_down, tiles_across);
            float sums[SUMS];
            multiply_slices(sums, ring, turn, group, slices);
            store_sums(sums, ring, c, group, (at.row * CLUSTER + rank) * ROWS, at.col * COLS);
        }
        wait_stores_read<0>();  // shared memory must not be released while stores read it
    }
#if CLUSTER > 1
    cluster_sync();  // a block that has ended cannot receive bytes or arrivals
#endif
}
