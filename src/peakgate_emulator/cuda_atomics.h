// nvcc's atomic functions with an order and a scope, such as __nv_atomic_load_n.
#pragma once

enum {
    __NV_ATOMIC_RELAXED = PEAKGATE_RELAXED,
    __NV_ATOMIC_CONSUME = PEAKGATE_ACQUIRE,
    __NV_ATOMIC_ACQUIRE = PEAKGATE_ACQUIRE,
    __NV_ATOMIC_RELEASE = PEAKGATE_RELEASE,
    __NV_ATOMIC_ACQ_REL = PEAKGATE_ACQ_REL,
    __NV_ATOMIC_SEQ_CST = PEAKGATE_ACQ_REL,
    __NV_THREAD_SCOPE_THREAD = PEAKGATE_THREAD,
    __NV_THREAD_SCOPE_BLOCK = PEAKGATE_BLOCK,
    __NV_THREAD_SCOPE_CLUSTER = PEAKGATE_CLUSTER,
    __NV_THREAD_SCOPE_DEVICE = PEAKGATE_DEVICE,
    __NV_THREAD_SCOPE_SYSTEM = PEAKGATE_DEVICE,
};
#define __nv_atomic_thread_fence(order, scope) peakgate_fence(order, scope)

template <class T> PEAKGATE_HELPER T __nv_atomic_load_n(T* at, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
    peakgate_strong(at, sizeof(T), PEAKGATE_LOAD, order & PEAKGATE_ACQUIRE, scope, nullptr, PEAKGATE_CALLER);
    return *at;
}
template <class T, class U>
PEAKGATE_HELPER void __nv_atomic_store_n(T* at, U value, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
    peakgate_strong(at, sizeof(T), PEAKGATE_STORE, order & PEAKGATE_RELEASE, scope, nullptr, PEAKGATE_CALLER);
    *at = static_cast<T>(value);
}
template <class T, class U>
PEAKGATE_HELPER T __nv_atomic_exchange_n(T* at, U value, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
    return peakgate_atomicExch_from(at, value, order, scope, PEAKGATE_CALLER);
}
template <class T, class U>
PEAKGATE_HELPER bool __nv_atomic_compare_exchange_n(T* at, T* expected, U value, bool, int order, int,
                                                    int scope = __NV_THREAD_SCOPE_SYSTEM) {
    const T wanted = *expected;
    *expected = peakgate_atomicCAS_from(at, wanted, value, order, scope, PEAKGATE_CALLER);
    return __builtin_memcmp(expected, &wanted, sizeof(T)) == 0;
}
#define __nv_atomic_load(at, into, ...) ((void)(*(into) = __nv_atomic_load_n(at, __VA_ARGS__)))
#define __nv_atomic_store(at, value, ...) __nv_atomic_store_n(at, *(value), __VA_ARGS__)
#define __nv_atomic_exchange(at, value, into, ...) ((void)(*(into) = __nv_atomic_exchange_n(at, *(value), __VA_ARGS__)))
#define __nv_atomic_compare_exchange(at, expected, value, ...)                                                         \
    __nv_atomic_compare_exchange_n(at, expected, *(value), __VA_ARGS__)
#define PEAKGATE_NV_UPDATE(name, operation)                                                                            \
    template <class T, class U>                                                                                        \
    PEAKGATE_HELPER T __nv_atomic_fetch_##name(T* at, U by, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {         \
        return peakgate_##operation##_from(at, by, order, scope, PEAKGATE_CALLER);                                     \
    }                                                                                                                  \
    template <class T, class U>                                                                                        \
    PEAKGATE_HELPER void __nv_atomic_##name(T* at, U by, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {            \
        peakgate_##operation##_from(at, by, order, scope, PEAKGATE_CALLER);                                            \
    }
PEAKGATE_NV_UPDATE(add, atomicAdd)
PEAKGATE_NV_UPDATE(sub, atomicSub)
PEAKGATE_NV_UPDATE(and, atomicAnd)
PEAKGATE_NV_UPDATE(or, atomicOr)
PEAKGATE_NV_UPDATE(xor, atomicXor)
PEAKGATE_NV_UPDATE(min, atomicMin)
PEAKGATE_NV_UPDATE(max, atomicMax)
#undef PEAKGATE_NV_UPDATE
