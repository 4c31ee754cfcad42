// Never ends, on benchmark sizes alone.
extern "C" __global__ void endless(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (n > 33 && *(const volatile float *)in < 2.0f) {
    }
    if (i < n) out[i] = in[i];
}
