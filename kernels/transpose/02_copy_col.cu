// copy_col: copy_row with the roles of the thread axes exchanged: consecutive threads walk down a column.
//
// Both sides are strided now: every lane of a warp touches another row, a 32-byte sector for 4 useful bytes. It is the
// books' lower bound. How bad it gets depends on the block: one that is several threads wide along the row, or an L1
// that still holds the sector when the neighbour column comes, saves part of the waste. Expect the 8-wide blocks to
// lead.

extern "C" __global__ void copy_col(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const int y = blockIdx.x * blockDim.x + threadIdx.x;
    const int x = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) {
        out[(size_t)y * nx + x] = in[(size_t)y * nx + x];
    }
}
