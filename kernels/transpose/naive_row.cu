// naive_row: the first transpose: reads rows, writes columns.
//
// Loads are coalesced as in copy_row; the stores of a warp go to as many rows of the output as the block is wide, a
// 32-byte sector each. Narrow, tall blocks fill whole sectors: on an H200 at 16384 x 16384 an 8x32 block reaches 1900
// GB/s, 16x16 1000 and 32x8 only 490.

extern "C" __global__ void naive_row(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) {
        out[(size_t)x * ny + y] = in[(size_t)y * nx + x];
    }
}
