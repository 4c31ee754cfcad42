// Twice a number; a fixed grid of more threads than small problems have elements.

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) { out[i] = 2.0f * x[i]; }
}
