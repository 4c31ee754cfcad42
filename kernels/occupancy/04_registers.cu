// registers: each thread subtracts the largest of its VALUES values from all of them.
//
// No value can be stored before the last is loaded, so a thread keeps VALUES registers and its addresses alive.
// __launch_bounds__(BLOCK, MIN_BLOCKS) makes the compiler fit that many blocks on a SM, whatever it costs: the first
// steps are free, then values spill to local memory, and each spilled value is a store and a load more. Occupancy goes
// up and bandwidth comes down: with VALUES loads in flight per thread, few warps were enough. Where a SM cannot hold
// MIN_BLOCKS x BLOCK threads at all, the compiler says so and ignores MIN_BLOCKS.

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
    // How far the data reach beyond this thread's first element: guards against a constant need no register each.
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
