// Threads count in a variable of the device without an atomic.
static __device__ int counted[2];
extern "C" __global__ void device_variable_race(float* out, const float* in, int n) {
    counted[threadIdx.x % 2] += 1;  // DEFECT: GLOBAL_RACE
    out[blockIdx.x * blockDim.x + threadIdx.x] = in[0] + counted[0] * 0;
}
