extern "C" __global__ void same_value_race(float* out, const float* in, int n) {
    __shared__ int found;
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (in[i] >= 0) found = 1;  // DEFECT: SAME_VALUE_RACE
    __syncthreads();
    out[i] = found;
}
