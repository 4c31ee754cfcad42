// stride: one_per_thread with `stride` - 1 unused elements between two used ones: the unused bytes are moved too.
//
// Memory moves whole 32-byte sectors. The useful part of them falls as 1 / stride until each element has a sector of
// its own, and is sizeof(REAL) / 32 from there on: an eighth for float from stride 8, a quarter for double from stride
// 4. Beyond that it keeps falling on GPUs whose DRAM bursts are longer than a sector: expect another halving by stride
// 16 on HBM with 64-byte bursts, and more where every access opens another DRAM page.

#ifndef REAL
#define REAL float
#endif

extern "C" __global__ void stride(REAL* __restrict__ values, size_t n, int stride) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i * stride] += 1;
    }
}
