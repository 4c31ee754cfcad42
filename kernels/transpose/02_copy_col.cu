// copy_col: copy_row with the roles of the thread axes exchanged: consecutive threads walk down a column.
//
// Both sides are strided now: every lane of a warp touches another row, a 32-byte sector for 4 useful bytes. Textbooks
// take it as the lower bound. How slow it is depends on the block: if it is several threads wide along the row, or if
// L1 still holds the sector when the neighbouring column is read, part of the waste is avoided. Expect the blocks that
// are 8 threads wide to be the fastest.

extern "C" __global__ void copy_col(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const int y = blockIdx.x * blockDim.x + threadIdx.x;
    const int x = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) {
        out[(size_t)y * nx + x] = in[(size_t)y * nx + x];
    }
}
