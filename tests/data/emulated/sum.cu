__global__ void partial_sums(float* sums, const float* x, int n) {
    float sum = 0;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += gridDim.x * 32) sum += x[i];
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lane);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
__global__ void final_sum(float* out, const float* sums, int count) {
    float sum = 0;
    for (int i = 0; i < count; ++i) sum += sums[i];
    *out = sum;
}
__global__ void naive(float* out, const float* x, int n) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    *out = sum;
}
