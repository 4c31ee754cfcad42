// smem_rectangular: smem_pad with a tile that has the shape of the block, which need not be square.
//
// Each thread moves one float. The transpose of a tile of 16 rows by 32 columns has 32 rows of 16, so the threads of a
// 32x16 block are numbered anew for the write, 16 to a row of the output. A warp writes two rows of 64 bytes, and reads
// two columns of the tile at once. Without padding each of the two columns is in one bank: a 16-way conflict. With one
// float of padding the columns have 15 banks in common: a 2-way conflict. With two floats one column is in the even
// banks and the other in the odd ones: no conflict. The right padding is the number of columns that a warp reads, 32 /
// BLOCK_Y: 1 for 32 rows, 2 for 16, 4 for 8. Expect less than smem_pad with 32x8 threads: each thread has one load in
// flight, and the output's rows are written in shorter pieces.

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
