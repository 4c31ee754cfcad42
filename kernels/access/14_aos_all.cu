// aos_all: all four fields, in an array of structures (AoS), one 4-byte access per field.
//
// Each of the four loads of a warp is strided and touches all sectors of its 32 records, but together they use every
// byte, and three of the four loads find the sectors in L1. Device memory moves no unused byte. The cost is four times
// as many sector requests, and stores that write sectors in parts. Expect somewhat less than soa_all, not a quarter.

#ifndef REAL
#define REAL float
#endif

struct Record {
    REAL x, y, z, w;
};

extern "C" __global__ void aos_all(Record* __restrict__ records, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        records[i].x += 1;
        records[i].y += 2;
        records[i].z += 3;
        records[i].w += 4;
    }
}
