// naive_col: naive_row with the two sides exchanged: reads columns (scattered) and writes rows (coalesced).
//
// The scattered accesses are the loads now, and there a cache helps: the sectors of a strided load stay in L1 until the
// threads of the neighbouring columns read the rest of them, while a partly written sector has to be merged in L2. So
// naive_col is faster than naive_row and depends less on the shape of the block.

extern "C" __global__ void naive_col(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const int y = blockIdx.x * blockDim.x + threadIdx.x;
    const int x = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) {
        out[(size_t)x * ny + y] = in[(size_t)y * nx + x];
    }
}
