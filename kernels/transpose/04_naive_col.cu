// naive_col: the mirror of naive_row: reads columns, writes rows.
//
// The waste moves from the stores to the loads, where a cache can help: the sectors that a strided load brings stay in
// L1 for the neighbouring rows, while a partly written sector must be merged in L2. So it is the faster of the two and
// depends less on the block.

extern "C" __global__ void naive_col(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const int y = blockIdx.x * blockDim.x + threadIdx.x;
    const int x = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) {
        out[(size_t)x * ny + y] = in[(size_t)y * nx + x];
    }
}
