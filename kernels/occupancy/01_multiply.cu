// multiply: d = a * b, one float per thread: bandwidth rises with occupancy.
//
// Launched with blocks of 32 to 1024 threads, it shows bandwidth against occupancy: with blocks of 32 threads an SM
// reaches its limit of resident blocks at half of its warps. Each thread has 8 bytes in flight (one float of a, one of
// b), so bandwidth rises with the number of resident warps throughout, and even full occupancy leaves a data-centre GPU
// below its roof.

extern "C" __global__ void multiply(float* __restrict__ d, const float* __restrict__ a, const float* __restrict__ b,
                                    size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        d[i] = a[i] * b[i];
    }
}
