// read_float4: reads the array once and writes one sum per block: the roof of kernels that only read.
//
// Without the writes of a copy, DRAM need not switch between reading and writing, so reads reach a higher roof than
// copies (about 93 % of the theoretical peak on an H200). Four loads are issued before the first value is added. The
// sums ensure that the compiler removes no load and that every loaded value is checked.

#include "../common/block_sum.cuh"
#include "../common/quads.cuh"

__device__ __forceinline__ float quad_sum(float4 value) {
    return (value.x + value.y) + (value.z + value.w);
}

extern "C" __global__ void read_float4(float* __restrict__ sums, const float* __restrict__ in, size_t n) {
    const size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    const size_t quads = n / 4;
    float sum = 0.0f;
    size_t i = thread;
#pragma unroll 1
    for (; i + 3 * stride < quads; i += 4 * stride) {
        const float4 a = as_quads(in)[i];
        const float4 b = as_quads(in)[i + stride];
        const float4 c = as_quads(in)[i + 2 * stride];
        const float4 d = as_quads(in)[i + 3 * stride];
        sum += (quad_sum(a) + quad_sum(b)) + (quad_sum(c) + quad_sum(d));
    }
    for (; i < quads; i += stride) {
        sum += quad_sum(as_quads(in)[i]);
    }
    if (thread < n % 4) {
        sum += in[n - 1 - thread];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
    }
}
