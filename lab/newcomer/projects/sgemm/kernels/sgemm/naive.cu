__global__ void naive(float* c, const float* a, const float* b, int m, int n, int k)
{
    const int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= m || col >= n) {
        return;
    }
    float sum = 0;
    for (int at = 0; at < k; ++at) {
        sum += a[(size_t)row * k + at] * b[(size_t)at * n + col];
    }
    c[(size_t)row * n + col] = sum;
}
