// soa_all: all four fields, in a structure of arrays (SoA): `fields` has n x, then n y, n z, n w.
//
// Each thread has four independent loads, each contiguous across the warp: four times the bytes in flight of soa_one.
// Expect clearly more than one_per_thread, close to a float4 copy.

#ifndef REAL
#define REAL float
#endif

extern "C" __global__ void soa_all(REAL* __restrict__ fields, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const REAL x = fields[i];
        const REAL y = fields[n + i];
        const REAL z = fields[2 * n + i];
        const REAL w = fields[3 * n + i];
        fields[i] = x + 1;
        fields[n + i] = y + 2;
        fields[2 * n + i] = z + 3;
        fields[3 * n + i] = w + 4;
    }
}
