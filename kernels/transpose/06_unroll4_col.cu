// unroll4_col: naive_col with four elements per thread, which lie blockDim.x apart.
//
// Here the scattered accesses are the loads, and loads are what a thread waits for: four loads in flight hide more of
// the latency. With narrow blocks it is faster than smem_pad on an H200, without shared memory: 8 threads along a row
// of the output write whole sectors, and L1 keeps the sectors that neighbouring threads share. Blocks of 32 threads
// along x gain little: the sectors that they load are evicted from L1 half used.

#ifndef UNROLL
#define UNROLL 4
#endif

extern "C" __global__ void unroll4_col(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const int y = blockIdx.x * blockDim.x * UNROLL + threadIdx.x;
    const int x = blockIdx.y * blockDim.y + threadIdx.y;
    const int step = blockDim.x;
    float value[UNROLL];
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) {
        if (x < nx && y + k * step < ny) {
            value[k] = in[(size_t)(y + k * step) * nx + x];
        }
    }
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) {
        if (x < nx && y + k * step < ny) {
            out[(size_t)x * ny + y + k * step] = value[k];
        }
    }
}
