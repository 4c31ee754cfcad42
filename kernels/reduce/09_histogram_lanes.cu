// histogram_lanes: a block has a histogram for each lane, in the bank of that lane.
//
// Against histogram_shared two lanes of a warp never meet, neither in a bin nor in a bank: bin b of lane l is word
// 32 b + l. So the rate no longer depends on the values. It takes 32 KiB for each block, which is why a block has so many
// threads, and four loads are under way before the first value is counted. At the end a warp adds up the 32 counts of a
// bin. Expect the roof, whatever the values are.

#include "../common/quads.cuh"
#include "bins.cuh"

constexpr int LOADS = 4;  // of 16 bytes, under way at once

__device__ __forceinline__ void count(unsigned* counts_of_lane, float value) {
    const int bin = bin_of(value);
    if (bin >= 0) {
        atomicAdd(counts_of_lane + 32 * bin, 1u);
    }
}

__device__ __forceinline__ void count_quad(unsigned* counts_of_lane, float4 values) {
    count(counts_of_lane, values.x);
    count(counts_of_lane, values.y);
    count(counts_of_lane, values.z);
    count(counts_of_lane, values.w);
}

extern "C" __global__ void histogram_lanes(unsigned* __restrict__ counts, const float* __restrict__ in, size_t n) {
    __shared__ unsigned of_lanes[32 * BINS];
    for (int i = threadIdx.x; i < 32 * BINS; i += blockDim.x) {
        of_lanes[i] = 0;
    }
    __syncthreads();
    unsigned* const own = of_lanes + threadIdx.x % 32;
    const size_t thread = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    const size_t quads = n / 4;
    size_t i = thread;
#pragma unroll 1
    for (; i + (LOADS - 1) * stride < quads; i += LOADS * stride) {
        float4 values[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            values[k] = as_quads(in)[i + k * stride];
        }
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            count_quad(own, values[k]);
        }
    }
    for (; i < quads; i += stride) {
        count_quad(own, as_quads(in)[i]);
    }
    if (thread < n % 4) {
        count(own, in[n - 1 - thread]);
    }
    __syncthreads();
    for (int bin = threadIdx.x / 32; bin < BINS; bin += blockDim.x / 32) {
        const unsigned of_bin = __reduce_add_sync(0xffffffffu, of_lanes[32 * bin + threadIdx.x % 32]);
        if (threadIdx.x % 32 == 0) {
            atomicAdd(counts + bin, of_bin);
        }
    }
}
