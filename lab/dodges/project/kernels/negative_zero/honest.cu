// Whether a number is negative.

extern "C" __global__ void honest(int* out, const float* x, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) { out[i] = x[i] < 0.0f; }
}
