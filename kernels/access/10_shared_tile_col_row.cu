// shared_tile_col_row: writes the tile along columns and reads it along rows: the inverse of shared_tile_row_col.
//
// The bank conflicts are now in the stores to shared memory instead of the loads. No thread waits for the result of a
// store, but a conflicted store occupies the same unit for as long: expect the cost of shared_tile_row_col, not less.

#ifndef TILE_X
#define TILE_X 32
#endif
#ifndef TILE_Y
#define TILE_Y 32
#endif
#ifndef PAD
#define PAD 0
#endif

extern "C" __global__ void shared_tile_col_row(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    __shared__ float tile[TILE_Y][TILE_X + PAD];
    const int thread = threadIdx.y * TILE_X + threadIdx.x;
    const size_t i = (size_t)blockIdx.x * (TILE_X * TILE_Y) + thread;
    tile[thread % TILE_Y][thread / TILE_Y] = i < n ? in[i] : 0;
    __syncthreads();
    if (i < n) {
        out[i] = tile[threadIdx.y][threadIdx.x];
    }
}
