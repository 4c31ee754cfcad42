// multiply_float4: multiply with four neighbouring floats per thread: bytes in flight replace occupancy.
//
// Each thread has 32 bytes in flight, four times as many, so a quarter of the warps does what full occupancy does in
// multiply. Expect the same bandwidth from half occupancy upwards, above the best of multiply: bytes in flight matter,
// and occupancy is only one way to get them. The n % 4 floats left over go to the first threads of the grid.

#include "../common/quads.cuh"

extern "C" __global__ void multiply_float4(float* __restrict__ d, const float* __restrict__ a,
                                           const float* __restrict__ b, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) {
        const float4 left = as_quads(a)[i];
        const float4 right = as_quads(b)[i];
        as_quads(d)[i] = make_float4(left.x * right.x, left.y * right.y, left.z * right.z, left.w * right.w);
    }
    if (i < n % 4) {
        d[n - 1 - i] = a[n - 1 - i] * b[n - 1 - i];
    }
}
