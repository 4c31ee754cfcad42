// histogram_global: each element is counted in memory, by an atomic operation.
//
// 256 words take all the updates, which L2 makes one after the other for each word. Expect a rate far below that of
// memory, and a worse one where all elements fall into one bin. The counts do not depend on the order.

#include "bins.cuh"

extern "C" __global__ void histogram_global(unsigned* __restrict__ counts, const float* __restrict__ in, size_t n) {
    const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        const int bin = bin_of(in[i]);
        if (bin >= 0) {
            atomicAdd(counts + bin, 1u);
        }
    }
}
