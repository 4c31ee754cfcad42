// copy_float4: one float4 per thread: the copy that memory-bound kernels are compared with.
//
// Against copy_float a load moves four times the bytes at the same occupancy: 32 KiB in flight per SM. Expect 85 to 90
// % of the theoretical peak on arrays that are several times as large as the L2, as fast as the driver's own memcpy.

#include "../common/quads.cuh"

extern "C" __global__ void copy_float4(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) {
        as_quads(out)[i] = as_quads(in)[i];
    }
    copy_tail(out, in, n, i);
}
