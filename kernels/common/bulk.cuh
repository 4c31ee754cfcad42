// Copies of contiguous bytes by the copy engine, values for other blocks of a cluster, and the turn of a ring of slots.
#pragma once

#include "hopper.cuh"

// Addresses and the number of bytes are multiples of 16; the bytes count at the barrier.
__device__ __forceinline__ void load_bytes(void* to, const void* from, unsigned bytes, Barrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

// 16 bytes to `address` in another block's shared memory, which count at the barrier at `barrier` there: no fence, no
// arrival.
__device__ __forceinline__ void send_to_block(unsigned address, float4 values, unsigned barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                     address),
                 "f"(values.x), "f"(values.y), "f"(values.z), "f"(values.w), "r"(barrier)
                 : "memory");
}

// Which slot of a ring comes next, and in which parity of its barriers' phases.
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
