// diagonal_row: naive_row with the blocks ordered along diagonals of the grid.
//
// Once a remedy: on early GPUs blocks that ran together wrote to the same memory partition, and the diagonal spread
// them. Today's address hash spreads them anyway, so expect naive_row's speed, less what neighbouring blocks no longer
// share in the cache.

#include "../common/diagonal.cuh"

extern "C" __global__ void diagonal_row(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const uint2 block = diagonal_block();
    const int x = block.x * blockDim.x + threadIdx.x;
    const int y = block.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) {
        out[(size_t)x * ny + y] = in[(size_t)y * nx + x];
    }
}
