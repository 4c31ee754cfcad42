// Order in which blocks take the tiles of C.
#pragma once

#define RASTER_ROWS 8

struct TileIndex {
    int row;
    int col;
};

// Tile number `tile` of tiles_down x tiles_across, in bands of RASTER_ROWS rows of tiles, each band column by column:
// the blocks that run at one time then need few rows of A and few columns of B, and find most of them in L2.
__device__ __forceinline__ TileIndex raster(int tile, int tiles_down, int tiles_across) {
    const int tiles_of_band = RASTER_ROWS * tiles_across;
    const int band = tile / tiles_of_band;
    const int inside = tile % tiles_of_band;
    const int rows_of_band = min(RASTER_ROWS, tiles_down - band * RASTER_ROWS);
    return {band * RASTER_ROWS + inside % rows_of_band, inside / rows_of_band};
}
