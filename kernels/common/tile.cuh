// Loads a square tile from the input into shared memory, and stores it transposed to the output.
//
// A block of THREADS_X x THREADS_Y threads moves a tile of SIDE x SIDE floats in steps of its own shape, so SIDE has to
// be a multiple of both sides of the block. PITCH is the length of a tile row in shared memory, with its padding. Tiles
// are counted over the input: tile (tile_x, tile_y) begins at row tile_y * SIDE, column tile_x * SIDE.
//
// Loads are guarded by the bounds of the input and stores by those of the output: on a matrix that is not square, or
// whose sides are no multiples of SIDE, they differ. The caller puts the barrier between the two, outside any
// condition.
#pragma once

template <int THREADS_X, int THREADS_Y, int SIDE, int PITCH>
__device__ __forceinline__ void load_tile(float (&tile)[SIDE][PITCH], const float* __restrict__ in, int nx, int ny,
                                          int tile_x, int tile_y) {
    static_assert(SIDE % THREADS_X == 0 && SIDE % THREADS_Y == 0, "the block must walk the tile in whole steps");
    const int x = tile_x * SIDE + threadIdx.x;
    const int y = tile_y * SIDE + threadIdx.y;
#pragma unroll
    for (int j = 0; j < SIDE; j += THREADS_Y) {
#pragma unroll
        for (int i = 0; i < SIDE; i += THREADS_X) {
            if (x + i < nx && y + j < ny) {
                tile[threadIdx.y + j][threadIdx.x + i] = in[(size_t)(y + j) * nx + x + i];
            }
        }
    }
}

template <int THREADS_X, int THREADS_Y, int SIDE, int PITCH>
__device__ __forceinline__ void store_tile_transposed(float* __restrict__ out, const float (&tile)[SIDE][PITCH], int nx,
                                                      int ny, int tile_x, int tile_y) {
    // The output has nx rows of ny columns, and the two coordinates of the tile are exchanged.
    const int x = tile_y * SIDE + threadIdx.x;
    const int y = tile_x * SIDE + threadIdx.y;
#pragma unroll
    for (int j = 0; j < SIDE; j += THREADS_Y) {
#pragma unroll
        for (int i = 0; i < SIDE; i += THREADS_X) {
            if (x + i < ny && y + j < nx) {
                out[(size_t)(y + j) * ny + x + i] = tile[threadIdx.x + i][threadIdx.y + j];
            }
        }
    }
}
