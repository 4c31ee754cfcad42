// A reduction inside a warp that counts on lanes running in lockstep.
extern "C" __global__ void missing_syncwarp(float* out, const float* in, int n) {
    __shared__ float part[64];
    const int lane = threadIdx.x % 32;
    part[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (int distance = 16; distance > 0; distance /= 2) {
        if (lane < distance) part[threadIdx.x] += part[threadIdx.x + distance];  // DEFECT: SHARED_RACE
    }
    if (lane == 0) out[blockIdx.x * blockDim.x + threadIdx.x] = part[threadIdx.x];
}
