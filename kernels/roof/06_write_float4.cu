// write_float4: writes the array once and reads nothing: the roof of kernels that only write.
//
// No thread waits for the result of a store, so bytes in flight do not matter; whole sectors are written, so no sector
// has to be read first. Expect about the rate of reads, more bytes per second than a copy. Every element gets its own
// index as its value (modulo 2^24, exact in a float), so a store to the wrong place is detected.

#include "../common/quads.cuh"

__device__ __forceinline__ float ramp(size_t i) {
    return (float)((unsigned)i & 0xffffffu);
}

extern "C" __global__ void write_float4(float* __restrict__ out, size_t n) {
    const size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = thread; i < n / 4; i += stride) {
        as_quads(out)[i] = make_float4(ramp(4 * i), ramp(4 * i + 1), ramp(4 * i + 2), ramp(4 * i + 3));
    }
    if (thread < n % 4) {
        out[n - 1 - thread] = ramp(n - 1 - thread);
    }
}
