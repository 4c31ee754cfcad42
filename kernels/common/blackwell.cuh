// Blackwell's tensor memory and the products in it (tcgen05; compute capability 10.0, built for sm_100a). Barriers and
// the copy engine are Hopper's (hopper.cuh).
//
// Tensor memory has 128 lanes of 512 columns, each a word of 32 bits. A block allocates columns; an address has the
// lane in its upper and the column in its lower half. Warp w of a group of four reaches lanes 32 w to 32 w + 31 alone.
// One thread issues a product for the whole block: its operands are in shared memory, its sums in tensor memory.
//
// OF_BLOCKS is 2 where the two blocks of a pair, ranks 0 and 1 of a cluster, multiply together: rank 0 issues products of
// twice the rows. Each block has its rows of A and half of the rows of B, and gets the sums of its rows. Both allocate.
#pragma once

#include "hopper.cuh"

// ---- Tensor memory

// Allocates COLUMNS columns, a power of two from 32 on, and stores their address in shared memory; waits while another
// block has them. One warp calls it, and later free_columns.
template <unsigned COLUMNS, int OF_BLOCKS = 1>
__device__ __forceinline__ void allocate_columns(unsigned* address) {
    asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_address(address)),
                 "n"(COLUMNS), "n"(OF_BLOCKS)
                 : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::%0.sync.aligned;" ::"n"(OF_BLOCKS));
}

template <unsigned COLUMNS, int OF_BLOCKS = 1>
__device__ __forceinline__ void free_columns(unsigned columns) {
    asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(columns), "n"(COLUMNS), "n"(OF_BLOCKS));
}

// Accesses to tensor memory are ordered with those of other threads by a barrier between these two.
__device__ __forceinline__ void fence_tensor_before() {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

__device__ __forceinline__ void fence_tensor_after() {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// __syncthreads() for accesses to tensor memory too.
__device__ __forceinline__ void sync_tensors() {
    fence_tensor_before();
    __syncthreads();
    fence_tensor_after();
}

// barrier_wait() for accesses to tensor memory too.
__device__ __forceinline__ void wait_for_tensors(Barrier* barrier, unsigned parity) {
    barrier_wait(barrier, parity);
    fence_tensor_after();
}

#define TENSOR_REGISTERS_8(s, i)                                                                                \
    "=f"((s)[i]), "=f"((s)[(i) + 1]), "=f"((s)[(i) + 2]), "=f"((s)[(i) + 3]), "=f"((s)[(i) + 4]), "=f"((s)[(i) + 5]), \
        "=f"((s)[(i) + 6]), "=f"((s)[(i) + 7])

// Loads 32 columns: each lane of the warp gets those of its own lane of tensor memory. All 32 lanes call it together,
// with the address of lane 0 of the columns; wait_tensor_loads comes before anything else may overwrite them.
__device__ __forceinline__ void load_columns(float (&sums)[32], unsigned columns) {
    const unsigned first_lane = threadIdx.x / 32 % 4 * 32;
    asm volatile(
        "tcgen05.ld.sync.aligned.32x32b.x32.b32"
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
        : TENSOR_REGISTERS_8(sums, 0), TENSOR_REGISTERS_8(sums, 8), TENSOR_REGISTERS_8(sums, 16),
          TENSOR_REGISTERS_8(sums, 24)
        : "r"(columns + (first_lane << 16)));
}

__device__ __forceinline__ void wait_tensor_loads() {
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

// Stores a word in `count` x 4 columns of all lanes, each warp of a group of four in its own; wait_tensor_stores and a
// barrier come before products that read them.
__device__ __forceinline__ void fill_columns(unsigned columns, int count, unsigned word) {
    const unsigned first_lane = threadIdx.x / 32 % 4 * 32;
    for (int i = 0; i < count; ++i) {
        asm volatile("tcgen05.st.sync.aligned.32x32b.x4.b32 [%0], {%1, %1, %1, %1};" ::"r"(
                         columns + (first_lane << 16) + 4 * i),
                     "r"(word)
                     : "memory");
    }
}

__device__ __forceinline__ void wait_tensor_stores() {
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

// ---- Products

// Describes products of ROWS x COLS sums, both operands contiguous along k. The codes are those of PTX's instruction
// descriptor: sums are 1 float, 2 int; operands are of 16 bits 0 half, 1 bfloat16; 2 tf32; of 8 bits 0 e4m3 or 1 int8.
template <unsigned ROWS, unsigned COLS>
__device__ __forceinline__ constexpr unsigned products_of(unsigned sums, unsigned operands) {
    return sums << 4 | operands << 7 | operands << 10 | COLS / 8 << 17 | ROWS / 16 << 24;
}

// Descriptor of a tile as tile_descriptor has it, and as tcgen05 expects it. Adding 2 moves it by 32 bytes along k.
__device__ __forceinline__ unsigned long long operand_descriptor(const void* tile) {
    return tile_descriptor(tile) | 1ull << 46;
}

// sums = a . b^T (+ sums if `add`) over 32 bytes of k. One thread issues it; it is asynchronous, and products of the
// same sums follow each other.
#define TENSOR_PRODUCT(NAME, KIND)                                                                              \
    template <int OF_BLOCKS = 1>                                                                                \
    __device__ __forceinline__ void NAME(unsigned sums, unsigned long long a, unsigned long long b,             \
                                         unsigned product, bool add) {                                          \
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %4, 0;\n"                                            \
                     "tcgen05.mma.cta_group::%5.kind::" KIND " [%0], %1, %2, %3, add;\n}" ::"r"(sums),          \
                     "l"(a), "l"(b), "r"(product), "r"(static_cast<int>(add)), "n"(OF_BLOCKS)                   \
                     : "memory");                                                                               \
    }

TENSOR_PRODUCT(multiply_16_bits, "f16")
TENSOR_PRODUCT(multiply_tf32, "tf32")
TENSOR_PRODUCT(multiply_fp8, "f8f6f4")
TENSOR_PRODUCT(multiply_int8, "i8")

// Describes products of ROWS x COLS sums of numbers of 4 bits (e2m1), each 16 of which have a scale (ue4m3).
template <unsigned ROWS, unsigned COLS>
__device__ __forceinline__ constexpr unsigned scaled_products_of() {
    return 1u << 7 | 1u << 10 | COLS / 8 << 17 | ROWS / 128 << 27;
}

// The same of numbers of 4 bits; the scales are in tensor memory, those of 32 rows in each column.
__device__ __forceinline__ void multiply_nvfp4(unsigned sums, unsigned long long a, unsigned long long b, unsigned product,
                                               unsigned scales_of_a, unsigned scales_of_b, bool add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %6, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [%0], %1, %2, %3, [%4], [%5], add;"
                 "\n}" ::"r"(sums),
                 "l"(a), "l"(b), "r"(product), "r"(scales_of_a), "r"(scales_of_b), "r"(static_cast<int>(add))
                 : "memory");
}

// Arrives at the barrier once all products that this thread has issued have read their operands and written their sums.
__device__ __forceinline__ void commit_products(Barrier* barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                     shared_address(barrier))
                 : "memory");
}

// ---- Pairs of blocks

// The same at the barriers of both blocks of the pair.
__device__ __forceinline__ void commit_products_of_pair(Barrier* barrier) {
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(
            shared_address(barrier)),
        "h"(static_cast<unsigned short>(3))
        : "memory");
}

// Copies a tile as load_tile does; its bytes are counted by that barrier of rank 0.
__device__ __forceinline__ void load_tile_of_pair(void* to, const CUtensorMap* map, int column, int row,
                                                  Barrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
        "l"(map), "r"(column), "r"(row), "r"(address_in_block(barrier, 0))
        : "memory");
}
