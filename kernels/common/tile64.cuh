// Code that the 64 x 64 float4 stages share: when float4 may be used, and how a tile is moved when it may not.
#pragma once

constexpr int TILE = 64;
constexpr int QUADS = TILE / 4;       // float4 in a tile row
constexpr int TILE_THREADS = 256;     // four float4 per thread: 64 bytes in flight, 128 KiB per SM at full occupancy

// Whether the whole block can move tile (tile_x, tile_y) in float4: the tile is inside the matrix, and every row of
// input and output begins on a 16-byte boundary. The result is the same for all threads of a block.
__device__ __forceinline__ bool moves_in_float4(const float* out, const float* in, int nx, int ny, int tile_x,
                                                int tile_y) {
    const bool aligned = ((size_t)out | (size_t)in) % sizeof(float4) == 0 && nx % 4 == 0 && ny % 4 == 0;
    return aligned && (tile_x + 1) * TILE <= nx && (tile_y + 1) * TILE <= ny;
}

// Transposes one tile one float at a time, with bounds checks: for the right and lower edge of the matrix, and for a
// matrix whose rows are not 16-byte aligned. `tile` is shared memory of TILE * TILE floats. The XOR with the column
// puts every row of a column into another bank, so the write along rows and the read along columns are conflict-free.
__device__ __forceinline__ void transpose_ragged_tile(float* __restrict__ out, const float* __restrict__ in, int nx,
                                                      int ny, int tile_x, int tile_y, float* tile) {
    const int lane = threadIdx.x % TILE;
    const int first = threadIdx.x / TILE;
    constexpr int step = TILE_THREADS / TILE;
#pragma unroll 4
    for (int i = 0; i < TILE; i += step) {
        const int row = first + i;
        const int x = tile_x * TILE + lane;
        const int y = tile_y * TILE + row;
        if (x < nx && y < ny) {
            tile[lane * TILE + (row ^ (lane % 32))] = in[(size_t)y * nx + x];
        }
    }
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < TILE; i += step) {
        const int column = first + i;
        const int x = tile_x * TILE + column;
        const int y = tile_y * TILE + lane;
        if (x < nx && y < ny) {
            out[(size_t)x * ny + y] = tile[column * TILE + (lane ^ (column % 32))];
        }
    }
}
