// shared_tile_col_col: shared_tile_row_row with both sides along columns.
//
// A column of a 32-wide tile lies in one bank: both accesses are 32-way bank conflicts. The result is the same as
// shared_tile_row_row: the two differ in bank conflicts alone, and this is the most that those can cost. PAD 1 moves
// each row on by a bank and makes a square tile conflict-free.

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
