// copy_float4_grid: a grid of fixed size loops over the array in strides of the whole grid.
//
// Against copy_float4 the number of blocks no longer depends on the size, and each thread moves four float4 per
// iteration, one grid apart. This avoids launching millions of blocks and costs a loop: expect a few percent less than
// copy_float4.

#include "../common/quads.cuh"

extern "C" __global__ void copy_float4_grid(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    const size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    const size_t quads = n / 4;
    size_t i = thread;
#pragma unroll 1
    for (; i + 3 * stride < quads; i += 4 * stride) {
        const float4 a = as_quads(in)[i];
        const float4 b = as_quads(in)[i + stride];
        const float4 c = as_quads(in)[i + 2 * stride];
        const float4 d = as_quads(in)[i + 3 * stride];
        as_quads(out)[i] = a;
        as_quads(out)[i + stride] = b;
        as_quads(out)[i + 2 * stride] = c;
        as_quads(out)[i + 3 * stride] = d;
    }
    for (; i < quads; i += stride) {
        as_quads(out)[i] = as_quads(in)[i];
    }
    copy_tail(out, in, n, thread);
}
