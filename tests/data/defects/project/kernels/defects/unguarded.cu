// unguarded: a copy without the bounds check: right where the block divides the size, out of bounds elsewhere.
extern "C" __global__ void unguarded(float* __restrict__ out, const float* __restrict__ in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
}
