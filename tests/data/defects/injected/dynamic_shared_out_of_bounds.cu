// One element more than the launch has asked for.
extern "C" __global__ void dynamic_shared_out_of_bounds(float* out, const float* in, int n) {
    extern __shared__ float tile[];
    tile[threadIdx.x + 1] = in[threadIdx.x];  // DEFECT: OUT_OF_BOUNDS
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x + 1];
}
