// direct: out = in * in, ELEMENTS elements per thread, loaded into registers and stored from there.
//
// The elements of a thread are blockDim.x apart, so each load of a warp is contiguous. All loads of a batch are issued
// before its first store, and none waits for another: BATCH x 4 bytes in flight per thread. Expect the best of
// shared_limited_float4, and no more from more elements per thread, because only one batch is in flight at a time. Each
// element has a bounds check of its own, because the array may end between any two of them.

#ifndef ELEMENTS
#define ELEMENTS 4
#endif

constexpr int BATCH = 4;
static_assert(ELEMENTS % BATCH == 0, "a thread's elements are whole batches");

extern "C" __global__ void __launch_bounds__(1024)
    direct(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    const size_t first = (size_t)blockIdx.x * blockDim.x * ELEMENTS + threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < ELEMENTS; k += BATCH) {
        float values[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; ++j) {
            const size_t i = first + (k + j) * blockDim.x;
            values[j] = i < n ? in[i] : 0;
        }
#pragma unroll
        for (int j = 0; j < BATCH; ++j) {
            const size_t i = first + (k + j) * blockDim.x;
            if (i < n) {
                out[i] = values[j] * values[j];
            }
        }
    }
}
