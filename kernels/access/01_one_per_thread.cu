// one_per_thread: each thread adds one to one element, and neighbouring threads access neighbouring elements.
//
// The baseline of this folder. A warp reads 32 neighbouring elements: four 32-byte sectors for float, every byte of
// them useful. One float per thread is 8 KiB in flight per SM even at full occupancy, too little to hide the latency of
// HBM: expect half to two thirds of the copy roof on a data-centre GPU, more on a GPU with less bandwidth per SM.

#ifndef REAL
#define REAL float
#endif

extern "C" __global__ void one_per_thread(REAL* __restrict__ values, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] += 1;
    }
}
