// aos_all_aligned: aos_all with records that begin on a 16-byte boundary and are moved whole.
//
// The alignment allows the compiler one 16-byte load and store for four of 4 bytes. A warp's request is contiguous
// again, and a thread has 16 bytes in flight with one instruction. Where all fields are used together, the array of
// structures is now as good as the structure of arrays or better: layout should follow use.

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
