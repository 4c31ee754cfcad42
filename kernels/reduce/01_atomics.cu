// atomics: one atomic operation per element, all on the same word: correct, and limited by one word.
//
// The word is in one slice of L2, which performs one update after the other. Expect a rate that has nothing to do with
// the bandwidth of memory.
//
// `result` is updated: it has the value from before the launch. The sum is not repeatable to the last bits, because
// atomics are performed in any order; the maximum is.

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
