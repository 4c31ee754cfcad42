// atomics: one atomic operation for each element, all on the same word.
//
// It is correct, and slow: the word lives in one slice of L2, which takes one update after the other. Expect a rate
// that has nothing to do with the bandwidth of the memory.
//
// `result` is updated: it holds what came before. The sum is not repeatable to the last bits, for atomics come in any
// order; the maximum is.

#include "operations.cuh"

#ifndef OPERATION
#define OPERATION Sum
#endif

extern "C" __global__ void atomics(float* __restrict__ result, const float* __restrict__ in, size_t n) {
    const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        OPERATION::into(result, in[i]);
    }
}
