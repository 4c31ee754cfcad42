extern "C" __global__ void turned(float* out, const float* in, int n) {
    __shared__ int before[8];
    __shared__ float tile[64];
    before[threadIdx.x & 7] = threadIdx.x / 64;
    __syncthreads();
    tile[threadIdx.x] = in[threadIdx.x];
    BARRIER;
    out[threadIdx.x] = tile[63 - threadIdx.x] + before[0];
}
