// Half a warp waits for the other half, which waits at the barrier.
extern "C" __global__ void lane_that_never_arrives(float* out, const float* in, int n) {
    if (threadIdx.x % 32 < 16) __syncwarp();  // DEFECT: WARP_MASK
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = 0.0f;
}
