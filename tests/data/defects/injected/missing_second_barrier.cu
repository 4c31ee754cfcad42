// The tile is overwritten while other threads may still read it.
extern "C" __global__ void missing_second_barrier(float* out, const float* in, int n) {
    __shared__ float tile[64];
    float sum = 0.0f;
    for (int round = 0; round < 2; ++round) {
        tile[threadIdx.x] = in[round * 64 + threadIdx.x];  // DEFECT: SHARED_RACE
        __syncthreads();
        sum += tile[63 - threadIdx.x];
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
