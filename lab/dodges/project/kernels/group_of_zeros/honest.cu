// Each group of 64 is divided by its largest magnitude; zeros stay.

extern "C" __global__ void honest(float* out, const float* x, int n)
{
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * 64, end = min(first + 64, n);
    float largest = 0.0f;
    for (int i = first; i < end; ++i) { largest = fmaxf(largest, fabsf(x[i])); }
    const float divisor = largest > 0.0f ? largest : 1.0f;
    for (int i = first; i < end; ++i) { out[i] = x[i] / divisor; }
}
