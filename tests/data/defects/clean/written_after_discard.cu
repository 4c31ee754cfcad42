// What is discarded is written before it is read; read-only loads are of what the launch does not write.
extern "C" __global__ void __launch_bounds__(64) written_after_discard(float* out, const float* in, int n) {
    float* const own = out + blockIdx.x * blockDim.x;
    own[threadIdx.x] = -1.0f;
    __syncthreads();
    if (threadIdx.x < 2) asm volatile("discard.global.L2 [%0], 128;" ::"l"(own + 32 * threadIdx.x) : "memory");
    __syncthreads();
    own[threadIdx.x] = __ldg(in + threadIdx.x);
    __syncthreads();
    own[threadIdx.x] += 1.0f;
}
