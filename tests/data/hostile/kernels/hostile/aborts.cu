extern "C" void abort();
extern "C" __global__ void aborts(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (n > 33 && i == 0) abort();
    if (i < n) out[i] = in[i];
}
