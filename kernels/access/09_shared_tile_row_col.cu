// shared_tile_row_col: writes the tile along rows and reads it along columns, which transposes it.
//
// The write is conflict-free; the read of a tile 32 floats wide is an N-way bank conflict, where N is its number of
// rows. With PAD 1 a column of 32 rows is in 32 banks. In a tile of 16 rows each read takes two columns: with PAD 1
// their banks overlap (2-way), with PAD 2 one column has the even banks and the other the odd ones (no conflict). The
// right padding depends on the shape of the tile.

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
