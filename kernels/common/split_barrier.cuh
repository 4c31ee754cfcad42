// A barrier in two halves (mbarrier, compute capability 8.0 and up): a thread that has done its part arrives and goes
// on with something else; it waits only where it needs what the others did.
//
// SplitBarrier                            lies in shared memory, 8-byte aligned
// split_barrier_init(barrier, threads)    by one thread, before a __syncthreads() that all threads pass: every round
//                                         takes an arrival of each of `threads` threads
// split_barrier_arrive(barrier)           the calling thread's part of the current round is done
// split_barrier_wait(barrier, round)      returns once round `round` (0, 1, ...) is complete; what the others wrote to
//                                         shared memory before they arrived can then be read
// split_barrier_retire(barrier)           by one thread, when nobody uses the barrier any more: its memory may then
//                                         hold something else
//
// A wait looks at the lowest bit of `round` only, so nobody may arrive for a round before having waited for the one
// before it. Every thread arrives for itself: one arrival a warp would be enough for the memory model, but the
// race checker of the CUDA toolkit does not follow that chain, and it is not faster.
#pragma once

#ifdef PEAKGATE_EMULATED

// A wait is a whole barrier of the block there, which is stronger than what it stands for. That all have arrived is
// checked, and that nobody arrives for a round before having waited for the one before.
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
    // Of the others each may have arrived once more than it has waited; the calling thread may not.
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
    // The state that sm_80 returns is not needed: a wait by parity takes none.
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
