__device__ int deep(int n) {
    volatile int pad[256];
    pad[n & 255] = n;
    return n < 0 ? 0 : deep(n + 1) + pad[(n + 7) & 255];
}
extern "C" __global__ void recurses(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (n > 33 && i == 0) out[0] = deep(1);
    if (i < n) out[i] = in[i];
}
