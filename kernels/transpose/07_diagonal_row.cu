// diagonal_row: naive_row with the blocks ordered along diagonals of the grid.
//
// A remedy for partition camping: on early GPUs consecutive pieces of 256 bytes lay in consecutive memory partitions,
// blocks that ran together wrote to the same one, and the diagonal order spread them over all. Newer GPUs hash addresses
// over the partitions. Expect less than naive_row on large matrices, since neighbouring blocks no longer share sectors in
// the cache. At 2048 x 2048, which fits the L2 of an H200, blocks of 16 and more threads along x still gain (README.md
// has both sizes).

#include "../common/diagonal.cuh"

extern "C" __global__ void diagonal_row(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const uint2 block = diagonal_block();
    const int x = block.x * blockDim.x + threadIdx.x;
    const int y = block.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) {
        out[(size_t)x * ny + y] = in[(size_t)y * nx + x];
    }
}
