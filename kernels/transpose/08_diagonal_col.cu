// diagonal_col: naive_col with the blocks assigned along diagonals of the grid.
//
// As diagonal_row, for the variant that reads columns. It is slower at every size: a block reads only a part of each
// sector, and the neighbouring block in the row of the grid, which needs the rest, no longer runs at the same time.
// Expect 7 to 10 % less than naive_col with 16x16 threads.

#include "../common/diagonal.cuh"

extern "C" __global__ void diagonal_col(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const uint2 block = diagonal_block();
    const int y = block.x * blockDim.x + threadIdx.x;
    const int x = block.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) {
        out[(size_t)x * ny + y] = in[(size_t)y * nx + x];
    }
}
