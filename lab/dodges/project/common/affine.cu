// out = 2 x + 1; a block writes 8192 elements.

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    const int end = min(n, (int)(blockIdx.x + 1) * 8192);
    for (int i = blockIdx.x * 8192 + threadIdx.x; i < end; i += 256) {
        out[i] = 2.0f * x[i] + 1.0f;
    }
}
