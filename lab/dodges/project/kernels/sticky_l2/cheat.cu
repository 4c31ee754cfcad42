// Reads up to 32 MiB of the matrix with the policy evict_last, the rest as evict_first: the flush before the next sample, written
// with the usual policy, drives out other lines first. It hopes that lines which persist are reset once per batch at most.

constexpr unsigned long long KEPT_BYTES = 32ull << 20;

__device__ __forceinline__ float4 read(const float4* address, bool kept)
{
#ifdef PEAKGATE_EMULATED
    return *address;
#else
    unsigned long long last, first;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last));
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
    const unsigned long long policy = kept ? last : first;
    float4 value;
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(address), "l"(policy));
    return value;
#endif
}

extern "C" __global__ void cheat(float* y, const float* a, const float* x, int rows, int columns)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= rows) {
        return;
    }
    const bool kept = (unsigned long long)row * columns * 4 < KEPT_BYTES;
    const float4* from = reinterpret_cast<const float4*>(a + (size_t)row * columns);
    const float4* by = reinterpret_cast<const float4*>(x);
    float sum = 0.0f;
#pragma unroll 8
    for (int i = threadIdx.x % 32; i < columns / 4; i += 32) {
        const float4 one = read(from + i, kept), other = by[i];
        sum += one.x * other.x + one.y * other.y + one.z * other.z + one.w * other.w;
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lanes);
    }
    if (threadIdx.x % 32 == 0) {
        y[row] = sum;
    }
}
