// naive_row: the simplest transpose: reads rows (coalesced) and writes columns (scattered).
//
// The loads of a warp are coalesced as in copy_row. Its stores go to as many rows of the output as the block is wide,
// and each of these rows costs a 32-byte sector. A narrow, tall block fills whole sectors: 8x32 threads are almost four
// times as fast as 32x8 threads on an H200.

extern "C" __global__ void naive_row(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) {
        out[(size_t)x * ny + y] = in[(size_t)y * nx + x];
    }
}
