extern "C" __global__ void honest(float* out, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) { out[at] = x[at] + 1e-3f * sinf(x[at]); }
}
