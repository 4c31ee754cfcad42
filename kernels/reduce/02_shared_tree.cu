// shared_tree: a block reduces its elements in shared memory by repeated halving, then does one atomic operation.
//
// Against atomics there is one atomic operation per BLOCK elements. But each halving needs a barrier, at which more and
// more threads have nothing to do, and a thread still loads only 4 bytes. Expect a third of the roof at best.
//
// The sum is not repeatable to the last bits, because blocks finish in any order.

#include "operations.cuh"

#ifndef OPERATION
#define OPERATION Sum
#endif
#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void __launch_bounds__(BLOCK)
    shared_tree(float* __restrict__ result, const float* __restrict__ in, size_t n) {
    __shared__ float parts[BLOCK];
    const size_t i = static_cast<size_t>(blockIdx.x) * BLOCK + threadIdx.x;
    parts[threadIdx.x] = i < n ? in[i] : OPERATION::START;
    __syncthreads();
    for (unsigned half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            parts[threadIdx.x] = OPERATION::combine(parts[threadIdx.x], parts[threadIdx.x + half]);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        OPERATION::into(result, parts[0]);
    }
}
