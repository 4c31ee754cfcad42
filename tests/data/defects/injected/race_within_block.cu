// Two threads of a block store to each element.
extern "C" __global__ void race_within_block(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i / 2] = in[i];  // DEFECT: GLOBAL_RACE
}
