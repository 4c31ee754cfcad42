// histogram_lanes: a block has a histogram for each lane, in the bank of that lane.
//
// Against histogram_shared two lanes of a warp never conflict, neither in a bin nor in a bank: bin b of lane l is word
// 32 b + l. So the rate no longer depends on the values. It takes 32 KiB for each block, which is why a block has so
// many threads, and four loads are under way before the first value is counted. At the end a warp adds up the 32 counts
// of a bin; then neighbouring threads add the sums of neighbouring bins to memory, one request for 32 of them. Expect
// the roof, whatever the values are.
//
// Launch: up to 1024 threads; two such blocks fill an SM that holds 2048.

#include "bins.cuh"
#include "share_of_thread.cuh"

extern "C" __global__ void __launch_bounds__(1024, 2)
    histogram_lanes(unsigned* __restrict__ counts, const float* __restrict__ in, size_t n) {
    __shared__ unsigned of_lanes[32 * BINS];
    for (int i = threadIdx.x; i < 32 * BINS; i += blockDim.x) {
        of_lanes[i] = 0;
    }
    __syncthreads();
    unsigned* const own = of_lanes + threadIdx.x % 32;
    for_share_of_thread<4>(
        in, n, [&](float4 values) { count_quad<32>(own, values); }, [&](float value) { count<32>(own, value); });
    __syncthreads();
    for (int bin = threadIdx.x / 32; bin < BINS; bin += blockDim.x / 32) {
        const unsigned of_bin = __reduce_add_sync(0xffffffffu, of_lanes[32 * bin + threadIdx.x % 32]);
        if (threadIdx.x % 32 == 0) {
            of_lanes[32 * bin] = of_bin;  // nobody else reads this word
        }
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        atomicAdd(counts + bin, of_lanes[32 * bin]);
    }
}
