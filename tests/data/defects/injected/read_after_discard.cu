// The block's output is discarded, which makes it indeterminate, and read before anything is written.
extern "C" __global__ void read_after_discard(float* out, const float* in, int n) {
    float* const own = out + blockIdx.x * blockDim.x;
    own[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 2) asm volatile("discard.global.L2 [%0], 128;" ::"l"(own + 32 * threadIdx.x) : "memory");
    __syncthreads();
    own[threadIdx.x] += 1.0f;  // DEFECT: UNINITIALISED_GLOBAL
}
