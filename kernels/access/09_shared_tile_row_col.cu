// shared_tile_row_col: write along rows, read along columns: the tile is transposed.
//
// The write is conflict-free, the read of a 32-wide tile conflicts as many ways as it has rows. With PAD 1 a column of
// 32 rows meets 32 banks. A tile of 16 rows puts two columns into each read; with PAD 1 their banks overlap (two-way),
// with PAD 2 one takes the even banks and the other the odd ones (no conflict): the right padding depends on the tile.

#ifndef TILE_X
#define TILE_X 32
#endif
#ifndef TILE_Y
#define TILE_Y 32
#endif
#ifndef PAD
#define PAD 0
#endif

extern "C" __global__ void shared_tile_row_col(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    __shared__ float tile[TILE_Y][TILE_X + PAD];
    const int thread = threadIdx.y * TILE_X + threadIdx.x;
    const size_t i = (size_t)blockIdx.x * (TILE_X * TILE_Y) + thread;
    tile[threadIdx.y][threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    if (i < n) {
        out[i] = tile[thread % TILE_Y][thread / TILE_Y];
    }
}
