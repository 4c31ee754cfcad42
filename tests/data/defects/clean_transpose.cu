// A transpose through padded shared memory, right for ragged matrices: in is ny rows of nx.
extern "C" __global__ void clean_transpose(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    __shared__ float tile[16][17];
    const int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    for (int step = 0; step < 16; step += 4) {
        if (column < nx && row + step < ny)
            tile[threadIdx.y + step][threadIdx.x] = in[static_cast<size_t>(row + step) * nx + column];
    }
    __syncthreads();
    const int out_column = blockIdx.y * 16 + threadIdx.x, out_row = blockIdx.x * 16 + threadIdx.y;
    for (int step = 0; step < 16; step += 4) {
        if (out_column < ny && out_row + step < nx)
            out[static_cast<size_t>(out_row + step) * ny + out_column] = tile[threadIdx.x][threadIdx.y + step];
    }
}
