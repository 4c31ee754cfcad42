// float4 access to arrays whose length need not be a multiple of four. Arrays begin on a 16-byte boundary, as
// allocations of device memory do.
#pragma once

__device__ __forceinline__ const float4* as_quads(const float* values) {
    return reinterpret_cast<const float4*>(values);
}

__device__ __forceinline__ float4* as_quads(float* values) {
    return reinterpret_cast<float4*>(values);
}

// Copies the last n % 4 floats: each of the first threads of the grid copies one.
__device__ __forceinline__ void copy_tail(float* __restrict__ out, const float* __restrict__ in, size_t n,
                                          size_t thread) {
    if (thread < n % 4) {
        out[n - 1 - thread] = in[n - 1 - thread];
    }
}
