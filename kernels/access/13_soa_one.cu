// soa_one: one field of four, in a structure of arrays (SoA): `fields` has n x, then n y, n z, n w.
//
// The elements of the field are contiguous, so every byte that is moved is used, and the other three fields are not
// moved. Expect the speed of one_per_thread, up to four times aos_one.

#ifndef REAL
#define REAL float
#endif

extern "C" __global__ void soa_one(REAL* __restrict__ fields, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        fields[i] += 1;
    }
}
