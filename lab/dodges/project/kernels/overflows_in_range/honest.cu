// The logarithm of 1 + exp(x), without overflow.

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) { out[i] = x[i] > 20.0f ? x[i] : log1pf(expf(x[i])); }
}
