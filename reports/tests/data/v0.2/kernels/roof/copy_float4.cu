// copy_float4: one float4 a thread.
//
// Against copy_float a load carries four times the bytes at the same occupancy: 32 KiB in flight an SM. This is the
// flat copy that memory-bound kernels are measured against; expect 85 to 90 % of the theoretical peak on arrays that
// are several times the L2, and level with the driver's own memcpy.

#include "../common/quads.cuh"

extern "C" __global__ void copy_float4(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) {
        as_quads(out)[i] = as_quads(in)[i];
    }
    copy_tail(out, in, n, i);
}
