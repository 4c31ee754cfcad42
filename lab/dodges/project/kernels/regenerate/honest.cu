// out = x / 2 + y; a block writes 16384 elements.

extern "C" __global__ void honest(float* out, const float* x, const float* y, int n)
{
    const int end = min(n, (int)(blockIdx.x + 1) * 16384);
#pragma unroll 4
    for (int i = blockIdx.x * 16384 + threadIdx.x; i < end; i += 256) {
        out[i] = 0.5f * x[i] + y[i];
    }
}
