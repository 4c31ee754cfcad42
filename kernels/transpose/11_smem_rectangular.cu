// smem_rectangular: smem_pad with a tile of the block's own shape, which need not be square.
//
// Each thread moves one float. Transposed, a tile of 16 rows of 32 is 32 rows of 16, so the block of 32x16 threads no
// longer has the shape of what it writes: its threads are numbered anew, 16 to a row of the output. A warp writes two
// rows of 64 bytes, and reads two columns of the tile at once. Without padding they are in two banks, a 16-way
// conflict; with one float the columns overlap in all but two banks, a 2-way conflict; with two floats one column has
// the even banks, the other the odd ones. The right padding is the number of columns that a warp reads,
// 32 / BLOCK_Y: 1 for 32 rows, 2 for 16, 4 for 8. Expect less than smem_pad with 32x8 threads: one load in flight per
// thread, and shorter pieces of the output's rows.

#ifndef BLOCK_X
#define BLOCK_X 32
#endif
#ifndef BLOCK_Y
#define BLOCK_Y 16
#endif
#ifndef PAD
#define PAD 2
#endif

extern "C" __global__ void smem_rectangular(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    __shared__ float tile[BLOCK_Y][BLOCK_X + PAD];
    const int first_x = blockIdx.x * BLOCK_X;
    const int first_y = blockIdx.y * BLOCK_Y;
    const int x = first_x + threadIdx.x;
    const int y = first_y + threadIdx.y;
    if (x < nx && y < ny) {
        tile[threadIdx.y][threadIdx.x] = in[(size_t)y * nx + x];
    }
    __syncthreads();
    const int thread = threadIdx.y * BLOCK_X + threadIdx.x;
    const int column = thread / BLOCK_Y;
    const int row = thread % BLOCK_Y;
    if (first_x + column < nx && first_y + row < ny) {
        out[(size_t)(first_x + column) * ny + first_y + row] = tile[row][column];
    }
}
