// Loads with cache hints, in inline PTX (compute capability 8.0 and up). The emulator gets plain loads, because a hint
// never changes a result.
#pragma once

// Four floats from a 16-byte aligned address, in memory that the kernel does not write: not kept in L1, evicted last
// from L2.
#ifdef PEAKGATE_EMULATED
__device__ __forceinline__ float4 load_keeping_in_l2(const float* address) {
    return *reinterpret_cast<const float4*>(address);
}
#else
__device__ __forceinline__ float4 load_keeping_in_l2(const float* address) {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    float4 value;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(address), "l"(policy));
    return value;
}
#endif
