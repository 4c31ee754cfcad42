// The helpers of a measurement. Two of them never run between a sample's start and stop events; the third is timed
// itself, to compare processes.

__device__ __forceinline__ unsigned long long nanoseconds()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// Keeps the stream busy until the host has queued a whole batch and sets the flag, so that no launch cost can fall
// between two events. Gives up after `limit_ns`: a host that died must not leave the GPU spinning.
extern "C" __global__ void hold(const volatile int* flag, unsigned long long limit_ns)
{
    const unsigned long long start = nanoseconds();
    while (*flag == 0 && nanoseconds() - start < limit_ns) {
    }
}

// Notes cycles, nanoseconds and multiprocessor: two stamps on one multiprocessor give the SM clock between them.
extern "C" __global__ void stamp(unsigned long long* record)
{
    unsigned int multiprocessor;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    record[0] = clock64();
    record[1] = nanoseconds();
    record[2] = multiprocessor;
}

// Takes the same few microseconds in every process, and no memory: what its time differs by between processes is what
// launching any kernel differs by.
extern "C" __global__ void control(int links, float* never_written)
{
    float value = (float)threadIdx.x;
#pragma unroll 1
    for (int link = 0; link < links; ++link) {
        value = value * 0.5f + 1.0f;
    }
    if (value < 0.0f) {
        *never_written = value;
    }
}
