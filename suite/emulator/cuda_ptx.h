// What inline PTX is made of after ptx.py has written it as C++: registers of 64 bits, read as any type.
#pragma once

namespace peakgate_ptx {

template <class T> inline uint64_t bits(T value) {
    uint64_t result = 0;
    __builtin_memcpy(&result, &value, sizeof(T) < 8 ? sizeof(T) : 8);
    return result;
}
template <class T> inline T get(uint64_t from) {
    T value;
    __builtin_memcpy(&value, &from, sizeof(T));
    return value;
}
template <class T> inline void assign(T& to, uint64_t from) { to = get<T>(from); }

inline unsigned rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

// An address in shared memory is an offset of 32 bits, as on a GPU.
inline char* shared(uint64_t offset) { return peakgate_shared_base() + static_cast<uint32_t>(offset); }
inline char* generic(uint64_t address) { return reinterpret_cast<char*>(address); }
inline uint64_t shared_offset(uint64_t pointer) { return pointer - reinterpret_cast<uint64_t>(peakgate_shared_base()); }
inline uint64_t shared_pointer(uint64_t offset) { return reinterpret_cast<uint64_t>(shared(offset)); }

template <class T> inline T least(T a, T b) { return min(a, b); }
template <class T> inline T most(T a, T b) { return max(a, b); }
template <class T> inline T fused(T a, T b, T c) { return a * b + c; }
inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return fma(a, b, c); }
template <class T> inline T right(T a, uint32_t b) {
    if (b >= 8 * sizeof(T)) return a < 0 ? T(-1) : T(0);
    return a >> b;
}
inline int32_t high(int32_t a, int32_t b) { return __mulhi(a, b); }
inline uint32_t high(uint32_t a, uint32_t b) { return __umulhi(a, b); }
inline uint64_t high(uint64_t a, uint64_t b) { return __umul64hi(a, b); }
template <class T> inline T field(T a, uint32_t first, uint32_t count) {
    const uint32_t width = 8 * sizeof(T);
    if (!count || first >= width) return 0;
    const uint32_t left = first + count < width ? width - first - count : 0;
    return static_cast<T>(a << left) >> (left + first);
}
template <class T> inline T inserted(T a, T b, uint32_t first, uint32_t count) {
    const T mask = (count >= 8 * sizeof(T) ? ~T(0) : (T(1) << count) - 1) << first;
    return (a << first & mask) | (b & ~mask);
}
inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t result = 0;
    for (int bit = 0; bit < 32; ++bit)
        result |= (table >> ((a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)) & 1u) << bit;
    return result;
}

#define PEAKGATE_PTX_CALL __attribute__((noinline, no_sanitize("thread")))
PEAKGATE_PTX_CALL inline void named_barrier(int name, int threads, int waits) {
    peakgate_named_barrier(name, threads, waits, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void mbarrier_init(void* at, int count) { peakgate_sync_init(at, count, __builtin_return_address(0)); }
PEAKGATE_PTX_CALL inline uint64_t mbarrier_arrive(void* at, int count, int leaves) {
    return peakgate_sync_arrive(at, count, leaves, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline uint64_t mbarrier_phase(void* at, uint64_t phase) {
    return static_cast<uint64_t>(peakgate_sync_wait(at, phase, 0, __builtin_return_address(0)));
}
PEAKGATE_PTX_CALL inline uint64_t mbarrier_parity(void* at, uint64_t parity) {
    return static_cast<uint64_t>(peakgate_sync_parity(at, static_cast<int>(parity), 0, __builtin_return_address(0)));
}

} // namespace peakgate_ptx

inline size_t __cvta_generic_to_shared(const void* pointer) {
    return peakgate_ptx::shared_offset(reinterpret_cast<uint64_t>(pointer));
}
inline void* __cvta_shared_to_generic(size_t offset) { return peakgate_ptx::shared(offset); }
inline size_t __cvta_generic_to_global(const void* pointer) { return reinterpret_cast<size_t>(pointer); }
