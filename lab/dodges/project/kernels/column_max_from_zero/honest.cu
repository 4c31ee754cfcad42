// The largest of each column.

extern "C" __global__ void honest(float* out, const float* x, int rows, int n)
{
    const int column = blockIdx.x * 256 + threadIdx.x;
    if (column >= n) { return; }
    float largest = -INFINITY;
    for (int row = 0; row < rows; ++row) { largest = fmaxf(largest, x[(size_t)row * n + column]); }
    out[column] = largest;
}
