// soa_one: one field of four, in a structure of arrays: `fields` holds n x, then n y, n z, n w.
//
// The field's elements are neighbours, so every byte moved is used, and the other three fields stay where they are.
// Expect the speed of one_per_thread, up to four times aos_one.

#ifndef REAL
#define REAL float
#endif

extern "C" __global__ void soa_one(REAL* __restrict__ fields, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        fields[i] += 1;
    }
}
