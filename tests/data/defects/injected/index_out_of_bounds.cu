// Column 8 of a row of 8: memory of the next row, but not what was meant.
extern "C" __global__ void index_out_of_bounds(float* out, const float* in, int n) {
    __shared__ float tile[9][8];
    const int row = threadIdx.x / 8, column = threadIdx.x % 8;
    tile[row][column] = in[threadIdx.x];
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[row][column + 1];  // DEFECT: INDEX_OUT_OF_BOUNDS
}
