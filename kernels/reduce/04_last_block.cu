// last_block: each block leaves its number in memory, and the one that comes last combines them all, in their order.
//
// Against shuffles the result repeats bit by bit, and it need not be set before the launch. A block stores its part,
// fences, and counts itself; who counts last knows that all parts are there, tells its block at a barrier, and all read
// them. The counter starts the next launch at zero again. Expect the time of shuffles and about a microsecond more, for
// a second access to memory.

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
