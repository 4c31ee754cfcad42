// histogram_lanes: a block has a histogram for each lane, in the shared memory bank of that lane.
//
// Against histogram_shared two lanes of a warp never conflict, neither in a bin nor in a bank: bin b of lane l is word
// 32 b + l. So the rate does not depend on the values any more. It takes 32 KiB per block, which is why a block has so
// many threads, and each thread has four loads in flight before it counts the first value. At the end a warp adds up
// the 32 counts of a bin; then neighbouring threads add the sums of neighbouring bins to global memory, one request for
// 32 bins. Expect the roof, whatever the values.
//
// Launch: up to 1024 threads; two such blocks fill an SM that has room for 2048.

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
            of_lanes[32 * bin] = of_bin;  // no other thread reads this word
        }
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        atomicAdd(counts + bin, of_lanes[32 * bin]);
    }
}
