// histogram_shared: a block counts in shared memory, and adds its counts to those in memory at the end.
//
// Against histogram_global an update costs a turn of the SM's own shared memory, and memory sees 256 updates for each
// block of a fixed grid. Lanes of a warp that meet in one bin still take turns. Expect most of the roof where the values
// are spread, and a thirty-second of the shared memory's rate where all fall into one bin.

#include "../common/quads.cuh"
#include "bins.cuh"

__device__ __forceinline__ void count(unsigned* counts, float value) {
    const int bin = bin_of(value);
    if (bin >= 0) {
        atomicAdd(counts + bin, 1u);
    }
}

extern "C" __global__ void histogram_shared(unsigned* __restrict__ counts, const float* __restrict__ in, size_t n) {
    __shared__ unsigned of_block[BINS];
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        of_block[bin] = 0;
    }
    __syncthreads();
    const size_t thread = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = thread; i < n / 4; i += stride) {
        const float4 values = as_quads(in)[i];
        count(of_block, values.x);
        count(of_block, values.y);
        count(of_block, values.z);
        count(of_block, values.w);
    }
    if (thread < n % 4) {
        count(of_block, in[n - 1 - thread]);
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        atomicAdd(counts + bin, of_block[bin]);
    }
}
