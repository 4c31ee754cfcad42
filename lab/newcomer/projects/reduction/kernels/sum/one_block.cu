// Slow and simple: what the others must agree with.
__global__ void one_block(float* out, const float* x, int n)
{
    __shared__ double sums[256];
    double sum = 0;
    for (int at = threadIdx.x; at < n; at += 256) {
        sum += x[at];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int at = 1; at < 256; ++at) {
            sum += sums[at];
        }
        *out = sum;
    }
}
