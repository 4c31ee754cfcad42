// Transposes a 64 x 64 tile with 256 threads, in float4 on both sides, through XOR-swizzled shared memory.
//
// A thread loads a 4 x 4 block of floats as four float4 rows, transposes it in registers and stores it to shared memory
// as four float4 columns, so shared memory is written and read in 16-byte pieces. Eight threads (a quarter of a warp)
// access shared memory together; they are conflict-free when their pieces are in eight different groups of four banks.
// The XOR of a piece's index with the index of its group of threads gives that in both directions and needs no padding.
#pragma once

#include "tile64.cuh"

__device__ __forceinline__ float4 load_plain(const float* address) {
    return *reinterpret_cast<const float4*>(address);
}

// Index, in units of float4, of rows 4 * quad to 4 * quad + 3 of a column of the tile.
__device__ __forceinline__ unsigned piece_index(unsigned column, unsigned quad) {
    return column * QUADS + (quad ^ (column / 4 % 8));
}

// `LOAD` reads four floats from a 16-byte aligned address; the stages differ in it.
template <float4 (*LOAD)(const float*)>
__device__ __forceinline__ void transpose_tile_in_float4(float* __restrict__ out, const float* __restrict__ in, int nx,
                                                         int ny, int tile_x, int tile_y, float4* tile) {
    const unsigned column_quad = threadIdx.x % QUADS;
    const unsigned row_quad = threadIdx.x / QUADS;
    const float* source = in + (size_t)(tile_y * TILE + 4 * row_quad) * nx + tile_x * TILE + 4 * column_quad;
    float4 row[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        row[i] = LOAD(source + (size_t)i * nx);
    }
    const unsigned column = 4 * column_quad;
    tile[piece_index(column + 0, row_quad)] = make_float4(row[0].x, row[1].x, row[2].x, row[3].x);
    tile[piece_index(column + 1, row_quad)] = make_float4(row[0].y, row[1].y, row[2].y, row[3].y);
    tile[piece_index(column + 2, row_quad)] = make_float4(row[0].z, row[1].z, row[2].z, row[3].z);
    tile[piece_index(column + 3, row_quad)] = make_float4(row[0].w, row[1].w, row[2].w, row[3].w);
    __syncthreads();
    float* target = out + (size_t)(tile_x * TILE) * ny + tile_y * TILE;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned piece = threadIdx.x + i * TILE_THREADS;
        const unsigned quad = piece % QUADS;
        const unsigned target_row = piece / QUADS;
        float4* address = reinterpret_cast<float4*>(target + (size_t)target_row * ny + 4 * quad);
        *address = tile[piece_index(target_row, quad)];
    }
}

// Transposes one tile of any matrix: in float4 where that is possible, one float at a time at the edges. All threads of
// the block take the same branch, so all of them reach each barrier.
template <float4 (*LOAD)(const float*)>
__device__ __forceinline__ void transpose_swizzled_tile(float* __restrict__ out, const float* __restrict__ in, int nx,
                                                        int ny, int tile_x, int tile_y) {
    __shared__ float4 tile[TILE * QUADS];
    if (moves_in_float4(out, in, nx, ny, tile_x, tile_y)) {
        transpose_tile_in_float4<LOAD>(out, in, nx, ny, tile_x, tile_y, tile);
    } else {
        transpose_ragged_tile(out, in, nx, ny, tile_x, tile_y, reinterpret_cast<float*>(tile));
    }
}
