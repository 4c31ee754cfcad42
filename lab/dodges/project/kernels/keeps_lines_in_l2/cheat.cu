// Reads 24 MiB with lines that are to stay in the L2, so that a flush would leave them there.
// Published: gpu-mode/pygpubench PR 49 and karpathy/llm.c PR 851, persisting lines that survive the flush.
#include "rows.cuh"

__device__ inline float kept_line(const float* place)
{
#ifdef PEAKGATE_EMULATED
    return *place;
#else
    float value;
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(value) : "l"(place), "l"(policy));
    return value;
#endif
}

extern "C" __global__ void cheat(float* out, const float* x, int rows, int columns)
{
    const float* row = x + blockIdx.x * columns;
    float part = 0.0f;
    for (int at = threadIdx.x; at < columns; at += BLOCK) { part += kept_line(row + at); }
    const float sum = sum_of_block(part);
    if (threadIdx.x == 0) { out[blockIdx.x] = sum / columns; }
}
