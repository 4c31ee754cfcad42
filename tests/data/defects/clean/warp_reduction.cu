// Lanes of a warp exchange through shared memory, __syncwarp between reads and writes: words are read by two lanes.
extern "C" __global__ void warp_reduction(float* out, const float* in, int n) {
    __shared__ volatile float part[64];
    const int lane = threadIdx.x % 32;
    part[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncwarp();
    for (int distance = 16; distance > 0; distance /= 2) {
        const float sum = part[threadIdx.x] + part[threadIdx.x - lane + (lane + distance) % 32];
        __syncwarp();
        part[threadIdx.x] = sum;
        __syncwarp();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = part[threadIdx.x];
}
