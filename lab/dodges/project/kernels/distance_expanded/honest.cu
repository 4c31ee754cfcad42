// The distance of each point of x to each point of y.

extern "C" __global__ void honest(float* out, const float* x, const float* y, int m, int n, int k)
{
    const int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= m || column >= n) { return; }
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) {
        const float off = x[(size_t)row * k + i] - y[(size_t)column * k + i];
        sum += off * off;
    }
    out[(size_t)row * n + column] = sqrtf(sum);
}
