// Launches that follow each other in one process: what warps of an earlier one knew of each other is nothing to a later one.
#include <cooperative_groups.h>

// Both blocks live at the grid's barrier; their warps have met at a barrier with a number.
extern "C" __global__ void meet(int* out) {
    asm volatile("bar.sync 1, 64;");
    cooperative_groups::this_grid().sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

extern "C" __global__ void apart(int* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 1; }

// Each block reads what its other warp has stored, without a barrier between.
extern "C" __global__ void race(int* out) {
    __shared__ int values[64];
    cooperative_groups::this_grid().sync();
    values[threadIdx.x] = threadIdx.x;
    out[blockIdx.x * blockDim.x + threadIdx.x] = values[threadIdx.x ^ 32];
}
