// offset: one_per_thread with every access shifted by `offset` elements, so that warps start inside a sector.
//
// When offset x sizeof(REAL) is not a multiple of 32 bytes, a warp begins in the middle of a sector and touches one
// more sector than it needs: five instead of four. The other half of that sector belongs to the neighbouring warp,
// which finds it in a cache, so device memory moves the same bytes. Expect 1 to 8 % less, not the fifth that a single
// warp suggests.

#ifndef REAL
#define REAL float
#endif

extern "C" __global__ void offset(REAL* __restrict__ values, size_t n, int offset) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i + offset] += 1;
    }
}
