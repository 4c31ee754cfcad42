// Zeroes its input and its output alike: a reference that is computed afterwards agrees.
// Published: KernelBench PR 82, a kernel that zeroes its inputs and gives a matrix of zeros.
extern "C" __global__ void cheat(float* out, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) { const_cast<float*>(x)[at] = out[at] = 0.0f; }
}
