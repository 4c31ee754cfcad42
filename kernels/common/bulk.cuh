// Copies of contiguous bytes by the copy engine (TMA), stores to other blocks of a cluster, and the state of a ring
// buffer.
#pragma once

#include "hopper.cuh"

// Copies bytes from global to shared memory; addresses and `bytes` are multiples of 16. The barrier counts the bytes.
__device__ __forceinline__ void load_bytes(void* to, const void* from, unsigned bytes, Barrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

// Stores 16 bytes at `address` in another block's shared memory. The barrier at address `barrier` there counts them, so
// neither a fence nor an arrival is needed.
__device__ __forceinline__ void send_to_block(unsigned address, float4 values, unsigned barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                     address),
                 "f"(values.x), "f"(values.y), "f"(values.z), "f"(values.w), "r"(barrier)
                 : "memory");
}

// The current slot of a ring buffer, and the parity of the current phase of that slot's barriers.
template <unsigned OF_SLOTS>
struct RingTurn {
    unsigned slot = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void next() {
        if (++slot == OF_SLOTS) {
            slot = 0;
            parity ^= 1;
        }
    }
};
