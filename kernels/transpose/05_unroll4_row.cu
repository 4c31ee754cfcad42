// unroll4_row: naive_row with four elements per thread, which lie blockDim.x apart.
//
// Each thread issues four independent loads before its first store, and a quarter of the blocks are launched. The
// stores are as scattered as before, and the stores are what limits naive_row. On an H200 this stage is even slower
// than naive_row: a block writes four times as many columns, so more partly written sectors have to stay in the caches
// until their neighbours are written. Each element has a bounds check of its own, so an edge narrower than four blocks
// is handled.

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
