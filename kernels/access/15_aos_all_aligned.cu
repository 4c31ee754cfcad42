// aos_all_aligned: aos_all with records on 16-byte boundaries, which are loaded and stored whole.
//
// The alignment lets the compiler replace four 4-byte accesses by one of 16 bytes. The request of a warp is contiguous
// again, and a thread has 16 bytes in flight per instruction. Where all fields are used together, the array of
// structures is now as fast as the structure of arrays or faster: choose the layout by the use.

#ifndef REAL
#define REAL float
#endif

struct alignas(16) Record {
    REAL x, y, z, w;
};

extern "C" __global__ void aos_all_aligned(Record* __restrict__ records, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        Record record = records[i];
        record.x += 1;
        record.y += 2;
        record.z += 3;
        record.w += 4;
        records[i] = record;
    }
}
