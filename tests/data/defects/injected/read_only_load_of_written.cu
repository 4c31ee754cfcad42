// The barrier orders the two, but a read-only load may see what was there before the launch.
extern "C" __global__ void read_only_load_of_written(float* out, const float* in, int n) {
    float* const own = out + blockIdx.x * blockDim.x;
    own[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const float mirrored = __ldg(own + (blockDim.x - 1 - threadIdx.x));  // DEFECT: GLOBAL_RACE
    __syncthreads();
    own[threadIdx.x] = mirrored;
}
