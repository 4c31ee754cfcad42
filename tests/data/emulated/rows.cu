extern "C" __global__ void rows(float* out, const float* in) {
    __shared__ float row[64];
    __shared__ unsigned long long barrier;
    const unsigned ready = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(ready));
    __syncthreads();
    const unsigned to = (unsigned)__cvta_generic_to_shared(row + threadIdx.x);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + threadIdx.x));
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(ready));
    asm volatile("{ .reg .pred p; again: mbarrier.test_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(ready));
    out[threadIdx.x] = row[63 - threadIdx.x];
}
