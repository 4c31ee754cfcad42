// A barrier in two halves (mbarrier, compute capability 8.0 and up): a thread arrives when it has done its part and
// continues with other work; it waits only where it needs what the other threads did.
//
// SplitBarrier                            is in shared memory, 8-byte aligned
// split_barrier_init(barrier, threads)    by one thread, before a __syncthreads() of all threads: each round takes one
//                                         arrival of each of `threads` threads
// split_barrier_arrive(barrier)           the calling thread has done its part of the current round
// split_barrier_wait(barrier, round)      returns once round `round` (0, 1, ...) is complete; what other threads wrote
//                                         to shared memory before they arrived can then be read
// split_barrier_retire(barrier)           by one thread, when no thread uses the barrier any more: its memory may then
//                                         be used for something else
//
// A wait looks at the lowest bit of `round` only, so a thread has to wait for a round before it arrives for the next.
// Every thread arrives itself: one arrival per warp would be enough for the memory model, but the race checker of the
// CUDA toolkit does not follow that chain, and it is not faster.
#pragma once

#ifdef PEAKGATE_EMULATED

// In the emulator a wait is a barrier of the whole block, which is stronger than the real one. It asserts that all
// threads have arrived, and that no thread arrives for a round before it has waited for the one before.
struct alignas(8) SplitBarrier {
    unsigned arrivals;
    unsigned waits;
};

inline unsigned split_barrier_threads() {
    return blockDim.x * blockDim.y * blockDim.z;
}

inline void split_barrier_init(SplitBarrier* barrier, unsigned threads) {
    assert(threads == split_barrier_threads());
    *barrier = {0, 0};
}

inline void split_barrier_arrive(SplitBarrier* barrier) {
    // Each of the other threads may have arrived once more often than it has waited; the calling thread may not.
    assert(atomicAdd(&barrier->arrivals, 1u) < atomicAdd(&barrier->waits, 0u) + split_barrier_threads());
}

inline void split_barrier_wait(SplitBarrier* barrier, unsigned round) {
    __syncthreads();
    assert(atomicAdd(&barrier->arrivals, 0u) / split_barrier_threads() == round + 1);
    atomicAdd(&barrier->waits, 1u);
}

inline void split_barrier_retire(SplitBarrier*) {}

#else

using SplitBarrier = unsigned long long;

__device__ __forceinline__ unsigned split_barrier_address(SplitBarrier* barrier) {
    return static_cast<unsigned>(__cvta_generic_to_shared(barrier));
}

__device__ __forceinline__ void split_barrier_init(SplitBarrier* barrier, unsigned threads) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(split_barrier_address(barrier)), "r"(threads) : "memory");
}

__device__ __forceinline__ void split_barrier_arrive(SplitBarrier* barrier) {
    // sm_80 requires a destination for the state, which a wait by parity does not need.
    asm volatile("{\n"
                 ".reg .b64 state;\n"
                 "mbarrier.arrive.shared.b64 state, [%0];\n"
                 "}"
                 :
                 : "r"(split_barrier_address(barrier))
                 : "memory");
}

__device__ __forceinline__ void split_barrier_wait(SplitBarrier* barrier, unsigned round) {
#if __CUDA_ARCH__ >= 900
#define PEAKGATE_WAIT "mbarrier.try_wait.parity.shared.b64"  // lets the hardware put the thread to sleep
#else
#define PEAKGATE_WAIT "mbarrier.test_wait.parity.shared.b64"
#endif
    asm volatile("{\n"
                 ".reg .pred complete;\n"
                 "again:\n" PEAKGATE_WAIT " complete, [%0], %1;\n"
                 "@!complete bra again;\n"
                 "}"
                 :
                 : "r"(split_barrier_address(barrier)), "r"(round & 1)
                 : "memory");
#undef PEAKGATE_WAIT
}

__device__ __forceinline__ void split_barrier_retire(SplitBarrier* barrier) {
    asm volatile("mbarrier.inval.shared.b64 [%0];" : : "r"(split_barrier_address(barrier)) : "memory");
}

#endif
