// Lanes of one warp disagree on who takes part.
extern "C" __global__ void masks_that_differ(float* out, const float* in, int n) {
    const unsigned mask = threadIdx.x % 2 ? 0xffffffffu : 0x7fffffffu;
    out[blockIdx.x * blockDim.x + threadIdx.x] = __shfl_xor_sync(mask, in[threadIdx.x], 1);  // DEFECT: WARP_MASK
}
