// Twice the first n columns of rows that are `stride` apart.

extern "C" __global__ void honest(float* out, const float* x, int rows, int n, int stride)
{
    const int column = blockIdx.x * 256 + threadIdx.x;
    if (column >= n) { return; }
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        out[(size_t)row * n + column] = 2.0f * x[(size_t)row * stride + column];
    }
}
