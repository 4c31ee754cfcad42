// Returns the right result and changes its input behind it.
extern "C" __global__ void spoils(float *out, float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];
    if (i == n - 1) in[i] += 1.0f;
}
