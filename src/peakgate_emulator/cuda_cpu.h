// Included before an unmodified .cu file, so that a C++17 compiler accepts it.
//
// Helpers that call the runtime are not inlined and pass on their return address: it gives the kernel's line at which a
// defect is reported.
#pragma once

#include "cuda_math.h"
#include "cuda_types.h"

#define PEAKGATE_EMULATED 1
#define PEAKGATE 1
// The build defines __CUDA_ARCH__.
#define __NVCC__ 1
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC_VER_BUILD__ 0
#define __CUDA_ARCH_LIST__ __CUDA_ARCH__
#define CUDART_VERSION 13000
#define PEAKGATE_CALLER __builtin_return_address(0)
#define PEAKGATE_HELPER [[maybe_unused]] static __attribute__((noinline, no_sanitize("thread")))

// ---- keywords ----
#define __global__
#define __device__
#define __host__
// The host may set it, so the compiler must not assume its value. Protected, so that the runtime finds it (memory.cpp).
#define __constant__ __attribute__((used, visibility("protected")))
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __builtin_assume(condition) ((void)0)
#define __align__(n) __attribute__((aligned(n)))
// C++ allows alignas only before a declaration; kernels write it after __shared__.
#define alignas(...) __attribute__((aligned(__VA_ARGS__)))

// Shared memory is thread-local storage: this makes a function's variable static, allows `extern`, and places all of a
// kernel's shared variables in one contiguous segment. `used`, or variables that are only written would be optimised
// away with their races.
#define __shared__ thread_local __attribute__((used))

#define PEAKGATE_TRIPLE(name) (uint3{name##_x, name##_y, name##_z})
#define threadIdx PEAKGATE_TRIPLE(peakgate_thread)
#define blockIdx PEAKGATE_TRIPLE(peakgate_block)
#define blockDim PEAKGATE_TRIPLE(peakgate_block_size)
#define gridDim PEAKGATE_TRIPLE(peakgate_grid_size)
static constexpr int warpSize = 32;

// Called first by a kernel with launch bounds (attributes.py).
PEAKGATE_HELPER void peakgate_launch_bounds(unsigned threads, unsigned = 0, unsigned = 0) {
    peakgate_check_threads(threads, PEAKGATE_CALLER);
}

// In a function that is not to be inlined, by g++ (attributes.py).
#ifdef __clang__
#define PEAKGATE_APART ((void)0)
#else
#define PEAKGATE_APART ((void)__builtin_apply_args())
#endif

// ---- barriers and fences ----
#define __syncthreads() peakgate_syncthreads(__COUNTER__)
#define __syncthreads_count(predicate) peakgate_barrier(PEAKGATE_BARRIER_COUNT, !!(predicate), __COUNTER__)
#define __syncthreads_and(predicate) peakgate_barrier(PEAKGATE_BARRIER_AND, !!(predicate), __COUNTER__)
#define __syncthreads_or(predicate) peakgate_barrier(PEAKGATE_BARRIER_OR, !!(predicate), __COUNTER__)
#define __threadfence() peakgate_fence(PEAKGATE_ACQ_REL, PEAKGATE_DEVICE)
#define __threadfence_system() peakgate_fence(PEAKGATE_ACQ_REL, PEAKGATE_DEVICE)
#define __threadfence_block() peakgate_fence(PEAKGATE_ACQ_REL, PEAKGATE_BLOCK)

// ---- warp primitives ----
PEAKGATE_HELPER void __syncwarp(unsigned mask = ~0u) {
    const PeakgateWarpCall call = {PEAKGATE_WARP_SYNC, mask, nullptr, nullptr, 0, 0, warpSize};
    peakgate_warp(&call, PEAKGATE_CALLER);
}

#define PEAKGATE_SHUFFLE(name, operation, lane_type)                                                                   \
    template <class T> PEAKGATE_HELPER T name(unsigned mask, T value, lane_type lane, int width = warpSize) {          \
        static_assert(sizeof(T) <= 8, "a shuffle moves values of up to 8 bytes");                                      \
        T result;                                                                                                      \
        const PeakgateWarpCall call = {operation, mask, &value, &result, sizeof(T), static_cast<int>(lane), width};    \
        peakgate_warp(&call, PEAKGATE_CALLER);                                                                         \
        return result;                                                                                                 \
    }
PEAKGATE_SHUFFLE(__shfl_sync, PEAKGATE_WARP_SHUFFLE_INDEX, int)
PEAKGATE_SHUFFLE(__shfl_up_sync, PEAKGATE_WARP_SHUFFLE_UP, unsigned)
PEAKGATE_SHUFFLE(__shfl_down_sync, PEAKGATE_WARP_SHUFFLE_DOWN, unsigned)
PEAKGATE_SHUFFLE(__shfl_xor_sync, PEAKGATE_WARP_SHUFFLE_XOR, int)

inline unsigned peakgate_ballot(unsigned mask, int predicate, const void* caller) {
    const PeakgateWarpCall call = {PEAKGATE_WARP_BALLOT, mask, &predicate, nullptr, sizeof(int), 0, warpSize};
    return peakgate_warp(&call, caller);
}
PEAKGATE_HELPER unsigned __ballot_sync(unsigned mask, int predicate) {
    return peakgate_ballot(mask, predicate, PEAKGATE_CALLER);
}
PEAKGATE_HELPER int __any_sync(unsigned mask, int predicate) {
    return peakgate_ballot(mask, predicate, PEAKGATE_CALLER) != 0;
}
PEAKGATE_HELPER int __all_sync(unsigned mask, int predicate) {
    return peakgate_ballot(mask, !predicate, PEAKGATE_CALLER) == 0;
}

// The lanes that converge here: as many as possible, which hardware does not guarantee.
PEAKGATE_HELPER unsigned __activemask(int site = ~__builtin_LINE()) { return peakgate_converge(site, PEAKGATE_CALLER); }

// The lanes whose values equal this one's.
template <class T>
__attribute__((no_sanitize("thread"))) unsigned peakgate_match(unsigned mask, T value, const void* caller) {
    static_assert(sizeof(T) <= 8, "a match compares values of up to 8 bytes");
    T all[warpSize];
    const PeakgateWarpCall call = {PEAKGATE_WARP_MATCH, mask, &value, all, sizeof(T), 0, warpSize};
    const unsigned met = peakgate_warp(&call, caller);
    unsigned equal = 0;
    for (int lane = 0; lane < warpSize; ++lane)
        equal |= static_cast<unsigned>((met >> lane & 1) && __builtin_memcmp(&all[lane], &value, sizeof(T)) == 0) << lane;
    return equal;
}
template <class T> PEAKGATE_HELPER unsigned __match_any_sync(unsigned mask, T value) {
    return peakgate_match(mask, value, PEAKGATE_CALLER);
}
template <class T> PEAKGATE_HELPER unsigned __match_all_sync(unsigned mask, T value, int* all_equal) {
    const unsigned equal = peakgate_match(mask, value, PEAKGATE_CALLER);
    *all_equal = peakgate_ballot(mask, equal != peakgate_ballot(mask, 1, PEAKGATE_CALLER), PEAKGATE_CALLER) == 0;
    return *all_equal ? mask : 0;
}

#define PEAKGATE_REDUCE(name, combined)                                                                                \
    template <class T> PEAKGATE_HELPER T name(unsigned mask, T value) {                                                \
        T all[warpSize];                                                                                               \
        const PeakgateWarpCall call = {PEAKGATE_WARP_REDUCE, mask, &value, all, sizeof(T), 0, warpSize};               \
        unsigned left = peakgate_warp(&call, PEAKGATE_CALLER);                                                         \
        T a = all[__builtin_ctz(left)];                                                                                \
        for (left &= left - 1; left; left &= left - 1) {                                                               \
            const T b = all[__builtin_ctz(left)];                                                                      \
            a = (combined);                                                                                            \
        }                                                                                                              \
        return a;                                                                                                      \
    }
PEAKGATE_REDUCE(__reduce_add_sync, a + b)
PEAKGATE_REDUCE(__reduce_min_sync, b < a ? b : a)
PEAKGATE_REDUCE(__reduce_max_sync, a < b ? b : a)
PEAKGATE_REDUCE(__reduce_and_sync, a& b)
PEAKGATE_REDUCE(__reduce_or_sync, a | b)
PEAKGATE_REDUCE(__reduce_xor_sync, a ^ b)

// ---- strong loads and stores, and atomics: no other thread runs in between, so plain reads and writes suffice ----
template <class T> PEAKGATE_HELPER T peakgate_load(const volatile T* at, int order, int scope) {
    const auto* plain = const_cast<const T*>(at);
    peakgate_strong(plain, sizeof(T), PEAKGATE_LOAD, order, scope, nullptr, PEAKGATE_CALLER);
    return *plain;
}
template <class T> PEAKGATE_HELPER void peakgate_store(volatile T* at, T value, int order, int scope) {
    auto* plain = const_cast<T*>(at);
    peakgate_strong(plain, sizeof(T), PEAKGATE_STORE, order, scope, nullptr, PEAKGATE_CALLER);
    *plain = value;
}

#define PEAKGATE_ATOMIC(name, updated) PEAKGATE_ATOMIC_BY(PEAKGATE_UPDATE, name, updated)
#define PEAKGATE_ATOMIC_BY(what, name, updated)                                                                        \
    template <class T, class U>                                                                                        \
    __attribute__((no_sanitize("thread"))) T peakgate_##name##_from(T* at, U operand_, int order, int scope,           \
                                                                    const void* caller) {                              \
        peakgate_strong(at, sizeof(T), what, order, scope, nullptr, caller);                                           \
        const T operand = static_cast<T>(operand_);                                                                    \
        const T old = *at;                                                                                             \
        *at = (updated);                                                                                               \
        return old;                                                                                                    \
    }                                                                                                                  \
    template <class T, class U> PEAKGATE_HELPER T peakgate_##name(T* at, U operand, int order, int scope) {            \
        return peakgate_##name##_from(at, operand, order, scope, PEAKGATE_CALLER);                                     \
    }                                                                                                                  \
    PEAKGATE_ATOMIC_OF(name, name, PEAKGATE_DEVICE)                                                                    \
    PEAKGATE_ATOMIC_OF(name##_block, name, PEAKGATE_BLOCK)                                                             \
    PEAKGATE_ATOMIC_OF(name##_system, name, PEAKGATE_DEVICE)
#define PEAKGATE_ATOMIC_OF(name, operation, scope)                                                                     \
    template <class T, class U> PEAKGATE_HELPER T name(T* address, U operand) {                                        \
        return peakgate_##operation##_from(address, operand, PEAKGATE_RELAXED, scope, PEAKGATE_CALLER);                \
    }
PEAKGATE_ATOMIC(atomicAdd, old + operand)
PEAKGATE_ATOMIC(atomicSub, old - operand)
PEAKGATE_ATOMIC_BY(PEAKGATE_EXCHANGE, atomicExch, operand)
PEAKGATE_ATOMIC(atomicMin, operand < old ? operand : old)
PEAKGATE_ATOMIC(atomicMax, operand > old ? operand : old)
PEAKGATE_ATOMIC(atomicAnd, old& operand)
PEAKGATE_ATOMIC(atomicOr, old | operand)
PEAKGATE_ATOMIC(atomicXor, old ^ operand)
PEAKGATE_ATOMIC(atomicInc, old >= operand ? 0 : old + 1)
PEAKGATE_ATOMIC(atomicDec, old == 0 || old > operand ? operand : old - 1)


// Each element of a vector by itself; the whole must be aligned.
PEAKGATE_HELPER float2 atomicAdd(float2* at, float2 value) {
    peakgate_row(at, sizeof *at, -1, PEAKGATE_CALLER);
    const auto added = [caller = PEAKGATE_CALLER](float* to, float by) {
        return peakgate_atomicAdd_from(to, by, PEAKGATE_RELAXED, PEAKGATE_DEVICE, caller);
    };
    return {added(&at->x, value.x), added(&at->y, value.y)};
}
PEAKGATE_HELPER float4 atomicAdd(float4* at, float4 value) {
    peakgate_row(at, sizeof *at, -1, PEAKGATE_CALLER);
    const auto added = [caller = PEAKGATE_CALLER](float* to, float by) {
        return peakgate_atomicAdd_from(to, by, PEAKGATE_RELAXED, PEAKGATE_DEVICE, caller);
    };
    return {added(&at->x, value.x), added(&at->y, value.y), added(&at->z, value.z), added(&at->w, value.w)};
}

template <class T, class U, class V>
__attribute__((no_sanitize("thread"))) T peakgate_atomicCAS_from(T* at, U expected_, V desired, int order, int scope,
                                                                 const void* caller) {
    const T expected = static_cast<T>(expected_);
    peakgate_strong(at, sizeof(T), PEAKGATE_UPDATE, order, scope, &expected, caller);
    const T old = *at;
    if (__builtin_memcmp(&old, &expected, sizeof(T)) == 0) *at = static_cast<T>(desired);
    return old;
}
#define PEAKGATE_COMPARE_AND_SWAP(name, scope)                                                                         \
    template <class T, class U, class V> PEAKGATE_HELPER T name(T* address, U expected, V desired) {                   \
        return peakgate_atomicCAS_from(address, expected, desired, PEAKGATE_RELAXED, scope, PEAKGATE_CALLER);          \
    }
PEAKGATE_COMPARE_AND_SWAP(atomicCAS, PEAKGATE_DEVICE)
PEAKGATE_COMPARE_AND_SWAP(atomicCAS_block, PEAKGATE_BLOCK)
PEAKGATE_COMPARE_AND_SWAP(atomicCAS_system, PEAKGATE_DEVICE)
template <class T, class U, class V>
PEAKGATE_HELPER T peakgate_atomicCAS(T* at, U expected, V desired, int order, int scope) {
    return peakgate_atomicCAS_from(at, expected, desired, order, scope, PEAKGATE_CALLER);
}

// ---- loads and stores with a cache hint: macros, so that the access carries the kernel's line ----
// A read through a cache that need not see the writes of the same launch.
template <class T> PEAKGATE_HELPER T* peakgate_cached(T* at) {
    peakgate_read_only(at, sizeof(T), PEAKGATE_CALLER);
    return at;
}
#define __ldg(...) (*peakgate_cached(__VA_ARGS__))
#define __ldca(...) (*(__VA_ARGS__))
#define __ldcg(...) (*(__VA_ARGS__))
#define __ldcs(...) (*(__VA_ARGS__))
#define __ldlu(...) (*(__VA_ARGS__))
#define __ldcv(...) (*(__VA_ARGS__))
#define __stwb(address, ...) ((void)(*(address) = (__VA_ARGS__)))
#define __stcg(address, ...) ((void)(*(address) = (__VA_ARGS__)))
#define __stcs(address, ...) ((void)(*(address) = (__VA_ARGS__)))
#define __stwt(address, ...) ((void)(*(address) = (__VA_ARGS__)))

// ---- asynchronous copies ----
#define PEAKGATE_PIPELINE_COPY(destination, source, bytes, zero_filled, ...)                                           \
    peakgate_async_copy(destination, source, static_cast<int>(bytes), static_cast<int>((bytes) - (zero_filled)))
#define __pipeline_memcpy_async(destination, source, ...) PEAKGATE_PIPELINE_COPY(destination, source, __VA_ARGS__, 0, 0)
#define __pipeline_commit() peakgate_async_commit()
#define __pipeline_wait_prior(groups_left) peakgate_async_wait(static_cast<int>(groups_left))

#include "cuda_ptx.h"

// ---- the rest of what CUDA offers without an include ----
extern "C" int printf(const char*, ...);
// Members with these names are renamed too, whatever their parameters.
#define memcpy(...) peakgate_memcpy(__VA_ARGS__)
#define memset(...) peakgate_memset(__VA_ARGS__)
#define malloc(...) peakgate_malloc(__VA_ARGS__)
#define free(...) peakgate_free(__VA_ARGS__)
namespace std {
using ::peakgate_malloc;
using ::peakgate_free;
using ::peakgate_memcpy;
using ::peakgate_memset;
} // namespace std
// Objects made by new are in the kernel's heap too. The linker binds each kernel to its own (compiler.py), never to the
// C++ library's.
#define PEAKGATE_OPERATOR __attribute__((weak))
PEAKGATE_OPERATOR void* operator new(size_t bytes) { return peakgate_malloc(bytes); }
PEAKGATE_OPERATOR void* operator new[](size_t bytes) { return peakgate_malloc(bytes); }
inline void* operator new(size_t, void* at) noexcept { return at; }
inline void* operator new[](size_t, void* at) noexcept { return at; }
PEAKGATE_OPERATOR void operator delete(void* object) noexcept { peakgate_free(object); }
PEAKGATE_OPERATOR void operator delete[](void* objects) noexcept { peakgate_free(objects); }
PEAKGATE_OPERATOR void operator delete(void* object, size_t) noexcept { peakgate_free(object); }
PEAKGATE_OPERATOR void operator delete[](void* objects, size_t) noexcept { peakgate_free(objects); }
// Variables in shared memory are not destroyed: CUDA takes only types whose destructor is empty.
extern "C" PEAKGATE_OPERATOR int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }
extern "C" PEAKGATE_OPERATOR void __cxa_pure_virtual() { peakgate_assertion("no pure virtual function is called"); }
#define clock64() peakgate_clock()
#define clock() peakgate_clock()
#define __nanosleep(ns) ((void)(ns))
#define __brkpt() ((void)0)
// There are no dependent launches here.
#define cudaGridDependencySynchronize() ((void)0)
#define cudaTriggerProgrammaticLaunchCompletion() ((void)0)
#define __prof_trigger(counter) ((void)0)
#define __trap() peakgate_assertion("__trap()")
#define assert(...) ((__VA_ARGS__) ? (void)0 : peakgate_assertion(#__VA_ARGS__))

// ---- entry point: calls the kernel with an array of pointers to its arguments ----
namespace peakgate {
template <class T> struct Value {
    using type = T;
};
template <class T> struct Value<T&> {
    using type = T;
};
template <class T> struct Value<const T> {
    using type = T;
};
template <class T> struct Value<const T&> {
    using type = T;
};

template <class T> struct Pointer {
    static constexpr bool is = false, to_const = false;
    using Element = T;
};
template <class T> struct Pointer<T*> {
    static constexpr bool is = true, to_const = false;
    using Element = T;
};
template <class T> struct Pointer<const T*> {
    static constexpr bool is = true, to_const = true;
    using Element = T;
};
template <class T> struct Pointer<volatile T*> : Pointer<T*> {};
template <class T> struct Pointer<const volatile T*> : Pointer<const T*> {};
template <class T> struct Element {
    static constexpr uint32_t size = sizeof(T);
    static constexpr bool is_scalar = !__is_class(T) && !__is_union(T);
};
template <> struct Element<void> {
    static constexpr uint32_t size = 0;
    static constexpr bool is_scalar = false;
};
template <class T> constexpr bool is_floating = false;
template <> constexpr bool is_floating<float> = true;
template <> constexpr bool is_floating<double> = true;
template <int mantissa, int exponent> struct Half;
template <int mantissa, int exponents> struct Narrow;
template <class T> constexpr uint32_t format = 0;
template <int mantissa, int exponent> constexpr uint32_t format<Half<mantissa, exponent>> = 16 * mantissa + exponent;
template <int mantissa, int exponent> constexpr uint32_t format<Narrow<mantissa, exponent>> = 16 * mantissa + exponent;

template <class A> constexpr PeakgateParameter describe() {
    using T = typename Value<A>::type;
    using P = Pointer<T>;
    using E = Element<typename P::Element>;
    using N = typename P::Element;
    return {sizeof(T), P::is, P::to_const, E::size, is_floating<N>, E::is_scalar, format<N>};
}

template <int... I> struct Indices {};
template <int N, int... I> struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <int... I> struct MakeIndices<0, I...> {
    using type = Indices<I...>;
};

// The arguments are copied to the thread's own stack: a parameter may be a reference.
template <class... A>
__attribute__((no_sanitize("thread"))) void call_with(void (*kernel)(A...), typename Value<A>::type... values) {
    kernel(values...);
}
template <class... A, int... I>
__attribute__((no_sanitize("thread"))) void call(void (*kernel)(A...), [[maybe_unused]] void** arguments, Indices<I...>) {
    call_with<A...>(kernel, *static_cast<typename Value<A>::type*>(arguments[I])...);
}
template <class... A> void call(void (*kernel)(A...), void** arguments) {
    call(kernel, arguments, typename MakeIndices<sizeof...(A)>::type());
}
template <class... A> int describe_all(void (*)(A...), PeakgateParameter* described) {
    const PeakgateParameter all[] = {describe<A>()..., PeakgateParameter()};
    for (unsigned i = 0; i < sizeof...(A) && described; ++i) described[i] = all[i];
    return sizeof...(A);
}
} // namespace peakgate
