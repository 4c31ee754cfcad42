// A block reads one row.
#include "row.cuh"

extern "C" __global__ void honest(__nv_bfloat16* out, const __nv_bfloat16* x, int columns)
{
    const __nv_bfloat16* row = x + (size_t)blockIdx.x * columns;
    Running mine = {-1e30f, 0.0f};
#pragma unroll 4
    for (int i = threadIdx.x; i < columns / 8; i += 256) {
        mine = with_eight(mine, row + 8 * i);
    }
    const Running all = of_block(mine);
    if (threadIdx.x == 0) {
        out[blockIdx.x] = __float2bfloat16(all.largest + __logf(all.sum));
    }
}
