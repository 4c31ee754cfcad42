// diagonal_row: naive_row with the blocks assigned along diagonals of the grid, a remedy for partition camping.
//
// On early GPUs consecutive pieces of 256 bytes were in consecutive memory partitions. Blocks that ran at the same time
// wrote to the same partition (partition camping), and the diagonal order spread their writes over all partitions.
// Newer GPUs hash the address to choose a partition. Expect less than naive_row on large matrices, because neighbouring
// blocks no longer share sectors in the cache. At 2048 x 2048, which fits in the L2 of an H200, blocks of 16 and more
// threads along x still gain (README.md shows both sizes).

#include "../common/diagonal.cuh"

extern "C" __global__ void diagonal_row(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const uint2 block = diagonal_block();
    const int x = block.x * blockDim.x + threadIdx.x;
    const int y = block.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) {
        out[(size_t)x * ny + y] = in[(size_t)y * nx + x];
    }
}
