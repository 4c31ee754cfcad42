// staged: direct by way of shared memory: load the block's elements, barrier, work on them, barrier, store.
//
// The usual frame of a kernel that shares data between threads; here a thread works on what its mirror image in the
// block has loaded, so both barriers are needed. Nothing is used twice, so nothing is gained: the block waits as one
// for its slowest load, and ELEMENTS x 4 bytes of shared memory per thread cap the blocks that could fill the gap.
// Expect direct's speed while several blocks fit a SM, and a loss once only one or two do. Stage only what is reused.

#ifndef ELEMENTS
#define ELEMENTS 4
#endif

extern "C" __global__ void __launch_bounds__(1024)
    staged(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    extern __shared__ float elements[];
    const size_t first = (size_t)blockIdx.x * blockDim.x * ELEMENTS;
#pragma unroll 4
    for (int k = 0; k < ELEMENTS; ++k) {
        const unsigned slot = k * blockDim.x + threadIdx.x;
        elements[slot] = first + slot < n ? in[first + slot] : 0;
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < ELEMENTS; ++k) {
        const unsigned slot = k * blockDim.x + (blockDim.x - 1 - threadIdx.x);
        elements[slot] *= elements[slot];
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < ELEMENTS; ++k) {
        const unsigned slot = k * blockDim.x + threadIdx.x;
        if (first + slot < n) {
            out[first + slot] = elements[slot];
        }
    }
}
