// Odd lanes shuffle up where even ones shuffle down.
extern "C" __global__ void different_warp_primitives(float* out, const float* in, int n) {
    const float value = in[threadIdx.x];
    float got;
    if (threadIdx.x % 2)
        got = __shfl_up_sync(0xffffffffu, value, 1);  // DEFECT: WARP_MASK
    else
        got = __shfl_down_sync(0xffffffffu, value, 1);
    out[blockIdx.x * blockDim.x + threadIdx.x] = got;
}
