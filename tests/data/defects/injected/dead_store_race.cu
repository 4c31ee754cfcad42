extern "C" __global__ void dead_store_race(float* out, const float* in, int n) {
    __shared__ float last;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    last = in[i];  // DEFECT: SHARED_RACE
    out[i] = in[i];
}
