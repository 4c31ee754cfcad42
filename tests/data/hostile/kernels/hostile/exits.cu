extern "C" void _exit(int);
extern "C" __global__ void exits(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (n > 33 && i == 0) _exit(0);
    if (i < n) out[i] = in[i];
}
