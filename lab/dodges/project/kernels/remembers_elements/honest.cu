extern "C" __global__ void honest(float* y, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) { return; }
    float value = x[at];
    for (int step = 0; step < STEPS; ++step) { value = 0.5f * cosf(value + x[at]); }
    y[at] = value;
}
