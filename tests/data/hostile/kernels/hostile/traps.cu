extern "C" __global__ void traps(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (n > 33 && i == 0) __trap();
    if (i < n) out[i] = in[i];
}
