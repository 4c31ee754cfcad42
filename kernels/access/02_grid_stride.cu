// grid_stride: one_per_thread with a grid of fixed size: each thread continues at the element one grid further on.
//
// No block has to be launched and retired for every 256 elements, and any grid is right for any n, which is why
// libraries use this loop. It is seldom faster: the next load of a thread waits for the loop's test and, unless the
// compiler unrolls, for the store before it. Expect within 10 % of one_per_thread with enough blocks (several full
// waves), and worse with few.

#ifndef REAL
#define REAL float
#endif

extern "C" __global__ void grid_stride(REAL* __restrict__ values, size_t n) {
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        values[i] += 1;
    }
}
