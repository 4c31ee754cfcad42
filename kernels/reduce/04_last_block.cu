// last_block: each block stores its result in global memory, and the block that finishes last combines all of them in
// order.
//
// Against shuffles the result is bitwise repeatable and need not be initialised before the launch. A block stores its
// part, executes a fence, and increments a counter. The thread that increments it last knows that all parts are stored
// and tells its block through shared memory at a barrier; then all its threads read the parts. The counter is zero
// again for the next launch. Expect the time of shuffles and about a microsecond more, for a second access to memory.

#include "block_reduction.cuh"

#ifndef OPERATION
#define OPERATION Sum
#endif

extern "C" __global__ void last_block(float* __restrict__ result, const float* __restrict__ in, float* parts,
                                      unsigned* finished, size_t n) {
    __shared__ bool last;
    const float block = of_block<OPERATION>(share_of_thread<OPERATION>(in, n));
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = block;
        __threadfence();
        last = atomicInc(finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) {
        return;
    }
    float own = OPERATION::START;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
        own = OPERATION::combine(own, __ldcg(parts + i));
    }
    const float all = of_block<OPERATION>(own);
    if (threadIdx.x == 0) {
        *result = all;
    }
}
