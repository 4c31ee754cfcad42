// The value that is read while thread 0 writes it is not used.
extern "C" __global__ void dead_load_race(float* out, const float* in, int n) {
    __shared__ float total;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) total = in[i];
    const float early = 2 * total;  // DEFECT: SHARED_RACE
    __syncthreads();
    out[i] = total;
}
