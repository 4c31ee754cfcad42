// Threads read what their mirror images wrote, with no barrier in between.
extern "C" __global__ void missing_barrier(float* out, const float* in, int n) {
    __shared__ float tile[64];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = in[i];
    out[i] = tile[63 - threadIdx.x];  // DEFECT: SHARED_RACE
}
