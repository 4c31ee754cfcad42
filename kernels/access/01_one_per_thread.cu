// one_per_thread: every thread adds one to one element, neighbours touch neighbours.
//
// The base of this folder. A warp reads 32 elements side by side: four 32-byte sectors for float, every byte of them
// useful. One float per thread is 8 KiB in flight per SM even at full occupancy, too little to hide HBM latency:
// expect half to two thirds of the copy roof on a data-centre GPU, more on one with less bandwidth per SM.

#ifndef REAL
#define REAL float
#endif

extern "C" __global__ void one_per_thread(REAL* __restrict__ values, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] += 1;
    }
}
