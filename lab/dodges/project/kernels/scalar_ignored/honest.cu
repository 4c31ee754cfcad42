// a x + b y.

extern "C" __global__ void honest(float* out, const float* x, const float* y, float a, float b, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) { out[i] = a * x[i] + b * y[i]; }
}
