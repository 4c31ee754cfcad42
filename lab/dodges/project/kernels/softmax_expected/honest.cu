// Two launches, 32 blocks per row: maximum and sum of each part; then each element.
#include "row.cuh"

extern "C" __global__ void part_sums(float* largest, float* sums, const __nv_bfloat16* x, int columns)
{
    const __nv_bfloat16* row = x + (size_t)blockIdx.y * columns;
    Running mine = {-1e30f, 0.0f};
#pragma unroll 4
    for (int i = blockIdx.x * 256 + threadIdx.x; i < columns / 8; i += gridDim.x * 256) {
        mine = with_eight(mine, row + 8 * i);
    }
    const Running all = of_block(mine);
    if (threadIdx.x == 0) {
        largest[blockIdx.y * gridDim.x + blockIdx.x] = all.largest;
        sums[blockIdx.y * gridDim.x + blockIdx.x] = all.sum;
    }
}

extern "C" __global__ void honest(__nv_bfloat16* out, const __nv_bfloat16* x, const float* largest, const float* sums,
                                  int columns)
{
    Running all = {-1e30f, 0.0f};
    for (int part = 0; part < gridDim.x; ++part) {
        all = joined(all, {largest[blockIdx.y * gridDim.x + part], sums[blockIdx.y * gridDim.x + part]});
    }
    const size_t start = (size_t)blockIdx.y * columns / 2;
    const float factor = 1.0f / all.sum;
    const __nv_bfloat162* from = reinterpret_cast<const __nv_bfloat162*>(x) + start;
    __nv_bfloat162* to = reinterpret_cast<__nv_bfloat162*>(out) + start;
#pragma unroll 4
    for (int i = blockIdx.x * 256 + threadIdx.x; i < columns / 2; i += gridDim.x * 256) {
        const float2 pair = __bfloat1622float2(from[i]);
        to[i] = __floats2bfloat162_rn(__expf(pair.x - all.largest) * factor, __expf(pair.y - all.largest) * factor);
    }
}
