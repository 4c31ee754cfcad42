// histogram_global: each element is counted in global memory, by one atomic operation.
//
// All updates go to 256 words, and L2 performs the updates of one word one after the other. Expect a rate far below
// that of memory, and a lower one where all elements fall into one bin. The counts do not depend on the order.

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
