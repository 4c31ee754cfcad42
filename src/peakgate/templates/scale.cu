// scale: out = 2 * in, one float per thread. The smallest kernel that is bound by memory: 8 bytes per element.

extern "C" __global__ void scale(float* __restrict__ out, const float* __restrict__ in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = 2.0f * in[i];
    }
}
