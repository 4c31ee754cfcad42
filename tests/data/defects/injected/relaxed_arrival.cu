// A relaxed arrival publishes nothing.
extern "C" __global__ void relaxed_arrival(float* out, const float* in, int n) {
    __shared__ unsigned long long barrier;
    __shared__ float tile[64];
    const unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at) : "memory");
    __syncthreads();
    tile[threadIdx.x] = in[threadIdx.x];
    asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(at) : "memory");
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[63 - threadIdx.x];  // DEFECT: SHARED_RACE
}
