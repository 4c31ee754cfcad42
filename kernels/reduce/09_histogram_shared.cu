// histogram_shared: a block counts in shared memory, and adds its counts to those in global memory at the end.
//
// Against histogram_global an update is an atomic operation in the SM's own shared memory, and global memory gets 256
// updates for each block of a fixed grid. Lanes of a warp that update the same bin are still serialized. Expect most of
// the roof where the values are spread, and one thirty-second of the shared memory rate where all fall into one bin.

#include "bins.cuh"
#include "share_of_thread.cuh"

extern "C" __global__ void histogram_shared(unsigned* __restrict__ counts, const float* __restrict__ in, size_t n) {
    __shared__ unsigned of_block[BINS];
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        of_block[bin] = 0;
    }
    __syncthreads();
    for_share_of_thread<4>(
        in, n, [&](float4 values) { count_quad<1>(of_block, values); }, [&](float value) { count<1>(of_block, value); });
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        atomicAdd(counts + bin, of_block[bin]);
    }
}
