// Looks for neighbours that are equal in its input, and computes in any case.
extern "C" __global__ void honest(float* out, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) { return; }
    const bool repeated = at + 1 < n && x[at] == x[at + 1];
    out[at] = repeated ? x[at] + x[at + 1] : 2.0f * x[at];
}
