// copy_col: copy_row with the thread axes exchanged: consecutive threads of a warp walk down a column.
//
// Loads and stores are both strided: each thread of a warp accesses another row, which moves a 32-byte sector for 4
// useful bytes. Textbooks use this copy as the lower bound. Its speed depends on the shape of the block: where a block
// is several threads wide along a row, or where L1 still holds the sector when the neighbouring column is read, the
// rest of the sector is used too. Expect the blocks that are 8 threads wide to be the fastest.

extern "C" __global__ void copy_col(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const int y = blockIdx.x * blockDim.x + threadIdx.x;
    const int x = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) {
        out[(size_t)y * nx + x] = in[(size_t)y * nx + x];
    }
}
