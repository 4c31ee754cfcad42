// shuffles: a fixed grid loops over the array with four loads of 16 bytes in flight per thread; warps reduce by
// shuffles.
//
// Against shared_tree a thread combines many elements in a register before any synchronization; then five shuffles, one
// barrier and five more shuffles give the block's result. There are as many atomic operations as blocks, a thousand or
// two, instead of one per 256 elements. Expect the roof, less the start and the end of the grid.
//
// The sum is not repeatable to the last bits, because blocks finish in any order.

#include "block_reduction.cuh"

#ifndef OPERATION
#define OPERATION Sum
#endif

extern "C" __global__ void shuffles(float* __restrict__ result, const float* __restrict__ in, size_t n) {
    const float block = of_block<OPERATION>(share_of_thread<OPERATION>(in, n));
    if (threadIdx.x == 0) {
        OPERATION::into(result, block);
    }
}
