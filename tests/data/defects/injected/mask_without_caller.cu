// Upper lanes call with a mask of the lower ones.
extern "C" __global__ void mask_without_caller(float* out, const float* in, int n) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = __shfl_sync(0x0000ffffu, in[threadIdx.x], 0);  // DEFECT: WARP_MASK
}
