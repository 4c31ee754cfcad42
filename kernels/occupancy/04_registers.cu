// registers: subtracts from VALUES values per thread the largest of them: occupancy is bought with spilled registers.
//
// No value can be stored before the last is loaded, so a thread keeps VALUES values and their addresses in registers.
// __launch_bounds__(BLOCK, MIN_BLOCKS) makes the compiler limit registers so that MIN_BLOCKS blocks fit on an SM: the
// first steps cost nothing, then values are spilled to local memory, and each spilled value costs a store and a load.
// Occupancy rises and bandwidth falls: with VALUES loads in flight per thread, few warps were enough. Where an SM
// cannot hold MIN_BLOCKS x BLOCK threads at all, the compiler warns and ignores MIN_BLOCKS.

#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef VALUES
#define VALUES 64
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

constexpr float LOWEST = -3.402823466e+38f;

extern "C" __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS)
    registers(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    const size_t first = (size_t)blockIdx.x * (BLOCK * VALUES) + threadIdx.x;
    // How far the data extend beyond this thread's first element: bounds checks against constants need no registers.
    const int reach = first < n ? (int)min(n - first, (size_t)(BLOCK * VALUES)) : 0;
    in += first;
    out += first;
    float values[VALUES];
    float largest = LOWEST;
#pragma unroll
    for (int k = 0; k < VALUES; ++k) {
        values[k] = k * BLOCK < reach ? in[k * BLOCK] : LOWEST;
    }
#pragma unroll
    for (int k = 0; k < VALUES; ++k) {
        largest = max(largest, values[k]);
    }
#pragma unroll
    for (int k = 0; k < VALUES; ++k) {
        if (k * BLOCK < reach) {
            out[k * BLOCK] = values[k] - largest;
        }
    }
}
