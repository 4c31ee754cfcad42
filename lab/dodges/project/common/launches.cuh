// A kernel's access to its earlier launches and to the time.
#pragma once

__device__ unsigned int launches_ended, blocks_ended;

// Counts this launch when its last block gets here: before, all threads read the same `launches_ended`.
__device__ inline void count_this_launch()
{
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0 && atomicAdd(&blocks_ended, 1u) == gridDim.x * gridDim.y - 1) {
        blocks_ended = 0;
        ++launches_ended;
    }
}

__device__ inline unsigned long long now_ns()
{
#ifdef PEAKGATE_EMULATED
    return clock64();
#else
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
#endif
}
