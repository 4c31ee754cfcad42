// copy_float4_x4: four float4 per thread, all loaded before the first is stored.
//
// Against copy_float4 each thread has four independent loads in flight, and a quarter of the blocks are launched. The
// loads of a thread are blockDim.x apart, so each of them is still coalesced. Where one float4 per thread keeps enough
// bytes in flight there is nothing left to gain, and on an H200 this stage is some 5 % slower; it pays where occupancy
// is low.

#include "../common/quads.cuh"

#ifndef QUADS_PER_THREAD
#define QUADS_PER_THREAD 4
#endif

extern "C" __global__ void copy_float4_x4(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    const size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t first = (size_t)blockIdx.x * blockDim.x * QUADS_PER_THREAD + threadIdx.x;
    const size_t quads = n / 4;
    const size_t step = blockDim.x;
    if (first + (QUADS_PER_THREAD - 1) * step < quads) {
        // Unguarded, so that the compiler issues all loads before it waits for the first.
        float4 value[QUADS_PER_THREAD];
#pragma unroll
        for (int k = 0; k < QUADS_PER_THREAD; ++k) {
            value[k] = as_quads(in)[first + k * step];
        }
#pragma unroll
        for (int k = 0; k < QUADS_PER_THREAD; ++k) {
            as_quads(out)[first + k * step] = value[k];
        }
    } else {
        for (size_t i = first; i < quads; i += step) {
            as_quads(out)[i] = as_quads(in)[i];
        }
    }
    copy_tail(out, in, n, thread);
}
