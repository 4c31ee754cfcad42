// Order in which blocks take the tiles of C.
#pragma once

struct TileIndex {
    int row;
    int col;
};

// Tile number `tile` of tiles_down x tiles_across, in bands of BAND rows of tiles, each band column by column. Blocks
// that run at the same time then need few rows of A and few columns of B, and find most of them in L2.
template <int BAND = 8>
__device__ __forceinline__ TileIndex raster(int tile, int tiles_down, int tiles_across) {
    const int tiles_of_band = BAND * tiles_across;
    const int band = tile / tiles_of_band;
    const int inside = tile % tiles_of_band;
    const int rows_of_band = min(BAND, tiles_down - band * BAND);
    return {band * BAND + inside % rows_of_band, inside / rows_of_band};
}
