// shared_tile_col_col: shared_tile_row_row with write and read along columns, both with bank conflicts.
//
// A column of a tile 32 floats wide is in one bank: both accesses are 32-way bank conflicts. The result is that of
// shared_tile_row_row; the two stages differ in bank conflicts alone, so their difference is the most that bank
// conflicts can cost. PAD 1 shifts each row by one bank and makes a square tile conflict-free.

#ifndef TILE_X
#define TILE_X 32
#endif
#ifndef TILE_Y
#define TILE_Y 32
#endif
#ifndef PAD
#define PAD 0
#endif

extern "C" __global__ void shared_tile_col_col(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    __shared__ float tile[TILE_Y][TILE_X + PAD];
    const int thread = threadIdx.y * TILE_X + threadIdx.x;
    const size_t i = (size_t)blockIdx.x * (TILE_X * TILE_Y) + thread;
    tile[thread % TILE_Y][thread / TILE_Y] = i < n ? in[i] : 0;
    __syncthreads();
    if (i < n) {
        out[i] = tile[thread % TILE_Y][thread / TILE_Y];
    }
}
