// aos_one: one field of four, in an array of structures (AoS): the other three fields are moved too.
//
// The three fields in between are moved and not used, as in `stride` with stride 4. A quarter of the bytes is useful,
// for float and double alike, and the useful bandwidth falls with it.

#ifndef REAL
#define REAL float
#endif

struct Record {
    REAL x, y, z, w;
};

extern "C" __global__ void aos_one(Record* __restrict__ records, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        records[i].x += 1;
    }
}
