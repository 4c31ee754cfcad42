// unroll4_row: naive_row with four elements per thread, a block's width apart.
//
// Four independent loads are in flight before the first store, and a quarter of the blocks are launched. The stores are
// as scattered as before, and they limit naive_row. On an H200 it even loses to naive_row: a block now writes four
// times as many columns, so more half-written sectors wait in the caches for their neighbours. Each element has its own
// guard, so a tail narrower than four blocks is not lost.

#ifndef UNROLL
#define UNROLL 4
#endif

extern "C" __global__ void unroll4_row(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const int x = blockIdx.x * blockDim.x * UNROLL + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int step = blockDim.x;
    float value[UNROLL];
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) {
        if (x + k * step < nx && y < ny) {
            value[k] = in[(size_t)y * nx + x + k * step];
        }
    }
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) {
        if (x + k * step < nx && y < ny) {
            out[(size_t)(x + k * step) * ny + y] = value[k];
        }
    }
}
