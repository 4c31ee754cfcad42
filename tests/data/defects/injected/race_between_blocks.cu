// Every block adds to the same elements; atomics are missing.
extern "C" __global__ void race_between_blocks(float* out, const float* in, int n) {
    out[threadIdx.x] += in[blockIdx.x * blockDim.x + threadIdx.x];  // DEFECT: GLOBAL_RACE
}
