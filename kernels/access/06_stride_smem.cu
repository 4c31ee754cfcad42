// stride_smem: stride_column with a tile in shared memory, so that global memory is accessed along rows.
//
// The block loads its tile along rows, coalesced, walks down columns in shared memory, which has no sectors, and stores
// the tile along rows. One unused element per row of the tile (PAD) puts the elements of a column into different banks.
// Both barriers are outside the bounds checks, so a block at the edge of the matrix reaches them too. Expect more than
// one_per_thread: each thread also has TILE / TILE_STEP independent loads.

#ifndef REAL
#define REAL float
#endif
#ifndef TILE
#define TILE 32
#endif
#ifndef TILE_STEP
#define TILE_STEP 8
#endif
#ifndef PAD
#define PAD 1
#endif

extern "C" __global__ void stride_smem(REAL* __restrict__ matrix, int rows, int columns) {
    __shared__ REAL tile[TILE][TILE + PAD];
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int column = blockIdx.x * TILE + threadIdx.x;
#pragma unroll
    for (int j = 0; j < TILE; j += TILE_STEP) {
        const bool inside = row + j < rows && column < columns;
        tile[threadIdx.y + j][threadIdx.x] = inside ? matrix[(size_t)(row + j) * columns + column] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < TILE; j += TILE_STEP) {
        tile[threadIdx.x][threadIdx.y + j] += 1;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < TILE; j += TILE_STEP) {
        if (row + j < rows && column < columns) {
            matrix[(size_t)(row + j) * columns + column] = tile[threadIdx.y + j][threadIdx.x];
        }
    }
}
