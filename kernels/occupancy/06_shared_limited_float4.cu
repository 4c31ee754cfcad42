// shared_limited_float4: shared_limited with four floats per thread: the same occupancy, four times the bytes in
// flight.
//
// Expect bandwidth to stay constant down to a much lower occupancy: at a quarter of the occupancy it reaches what
// shared_limited reaches at full occupancy. The n % 4 floats left over go to the first threads of the grid.

#include "../common/quads.cuh"

extern "C" __global__ void shared_limited_float4(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    extern __shared__ float4 quads[];
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) {
        quads[threadIdx.x] = as_quads(in)[i];
        const float4 quad = quads[threadIdx.x];
        as_quads(out)[i] = make_float4(quad.x * quad.x, quad.y * quad.y, quad.z * quad.z, quad.w * quad.w);
    }
    if (i < n % 4) {
        out[n - 1 - i] = in[n - 1 - i] * in[n - 1 - i];
    }
}
