// Asynchronous copies from global to shared memory (cp.async, compute capability 8.0 and up).
//
// copy_async<BYTES>(shared, global, source_bytes)  queues one copy of BYTES (4 or 16; both addresses aligned to it); of
//                                                  these, source_bytes are read and the rest is filled with zeros
// copy_async_commit()                              closes the calling thread's queue as one group, empty or not
// copy_async_wait<GROUPS_LEFT>()                   waits until at most GROUPS_LEFT of the thread's groups are pending
//
// A wait covers the copies of the calling thread only: other threads see the data after a barrier that follows the
// wait.
#pragma once

#ifdef PEAKGATE_EMULATED

template <int BYTES>
inline void copy_async(void* shared, const void* global, int source_bytes = BYTES) {
    static_assert(BYTES == 4 || BYTES == 16, "a copy is 4 or 16 bytes");
    peakgate_async_copy(shared, global, BYTES, source_bytes);
}

inline void copy_async_commit() {
    peakgate_async_commit();
}

template <int GROUPS_LEFT>
inline void copy_async_wait() {
    peakgate_async_wait(GROUPS_LEFT);
}

#else

template <int BYTES>
__device__ __forceinline__ void copy_async(void* shared, const void* global, int source_bytes = BYTES) {
    static_assert(BYTES == 4 || BYTES == 16, "a copy is 4 or 16 bytes");
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const size_t from = __cvta_generic_to_global(global);
    if (BYTES == 16) {
        // .cg does not allocate in L1: the data are read from shared memory afterwards. It exists for 16 bytes only.
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(to), "l"(from), "r"(source_bytes)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" : : "r"(to), "l"(from), "r"(source_bytes)
                     : "memory");
    }
}

__device__ __forceinline__ void copy_async_commit() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}

template <int GROUPS_LEFT>
__device__ __forceinline__ void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(GROUPS_LEFT) : "memory");
}

#endif
