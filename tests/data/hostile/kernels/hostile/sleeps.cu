extern "C" unsigned sleep(unsigned);
extern "C" __global__ void sleeps(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (n > 33 && i == 0) sleep(3600);
    if (i < n) out[i] = in[i];
}
