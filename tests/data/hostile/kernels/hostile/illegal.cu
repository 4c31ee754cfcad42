// Writes where nothing is mapped.
extern "C" __global__ void illegal(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (n > 33 && i == 0) *(volatile float *)16 = 1.0f;
    if (i < n) out[i] = in[i];
}
