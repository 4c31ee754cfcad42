// staged: direct through shared memory: load the elements of the block, barrier, square them, barrier, store.
//
// This is the usual structure of a kernel whose threads share data; here each thread squares what the thread at the
// mirrored index of the block has loaded, so both barriers are needed. Nothing is used twice, so nothing is gained: the
// whole block waits for its slowest load, and ELEMENTS x 4 bytes of shared memory per thread limit how many other
// blocks could run meanwhile. Expect the speed of direct while several blocks fit on an SM, and a loss once only one or
// two fit. Use shared memory only for data that are reused.

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
