// multiply: d = a * b, one float per thread.
//
// Launched with blocks of 32 to 1024 threads, it traces bandwidth against occupancy: 32-thread blocks reach a SM's
// block limit at half its warps. A thread has 8 bytes in flight (one float of a, one of b), so bandwidth rises with the
// resident warps all the way, and even full occupancy leaves a data-centre GPU short of its roof.

extern "C" __global__ void multiply(float* __restrict__ d, const float* __restrict__ a, const float* __restrict__ b,
                                    size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        d[i] = a[i] * b[i];
    }
}
