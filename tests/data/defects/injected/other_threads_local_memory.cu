// An address in local memory means another thread's own memory there.
extern "C" __global__ void other_threads_local_memory(float* out, const float* in, int n) {
    __shared__ float* first;
    float own[4] = {in[threadIdx.x], 1.0f, 2.0f, 3.0f};
    if (threadIdx.x == 0) first = own;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = first[threadIdx.x % 4];  // DEFECT: OUT_OF_BOUNDS
}
