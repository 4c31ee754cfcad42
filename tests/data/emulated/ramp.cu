#ifndef FLOATS
#define FLOATS 1
#endif
extern "C" __global__ void ramp(float* out, int n) {
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * FLOATS;
    for (int i = first; i < first + FLOATS && i < n; ++i) out[i] = i;
}
