// Hopper's asynchronous instructions (compute capability 9.0, built for sm_90a): barriers that count bytes (mbarrier),
// copies of whole tiles by the copy engine (TMA), products of a warpgroup, which is four warps (wgmma).
//
// Addresses in shared memory are 32-bit, as in PTX. A function with `fence` in its name orders accesses, one with
// `wait` blocks.
#pragma once

#include <cuda.h>

using Barrier = unsigned long long;

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// ---- Barriers (mbarrier): a phase completes when all threads have arrived and all announced bytes have been written.

__device__ __forceinline__ void barrier_init(Barrier* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Makes the barriers that this thread has initialised visible to the copy engine and the other blocks of the cluster.
__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(Barrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and announces the bytes that the copy engine will write in this phase.
__device__ __forceinline__ void barrier_expect(Barrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Arrives at the barrier that has the same offset in the shared memory of block `rank` of the cluster.
__device__ __forceinline__ void barrier_arrive_at(Barrier* barrier, unsigned rank) {
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
        "}" ::"r"(shared_address(barrier)),
        "r"(rank)
        : "memory");
}

// Waits until the phase of that parity is complete.
__device__ __forceinline__ void barrier_wait(Barrier* barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred over;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
        "@!over bra again;\n"
        "}" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

// ---- Blocks of a cluster

__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Barrier of the cluster: each of its threads arrives and waits until all have arrived.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

__device__ __forceinline__ void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

// The address in block `rank` of the cluster that corresponds to `pointer` in this block's shared memory.
__device__ __forceinline__ unsigned address_in_block(const void* pointer, unsigned rank) {
    unsigned address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(pointer)), "r"(rank));
    return address;
}

__device__ __forceinline__ void store_in_block(unsigned address, float2 values) {
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(values.x), "f"(values.y) : "memory");
}

// ---- Copies of tiles (TMA). `column` and `row` are those of the tile's first element. Elements outside the array are
// read as zero and not written.

__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ void load_tile(void* to, const CUtensorMap* map, int column, int row, Barrier* barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared_address(to)),
                 "l"(map), "r"(column), "r"(row), "r"(shared_address(barrier))
                 : "memory");
}

// The same from plane `plane` of a three-dimensional array.
__device__ __forceinline__ void load_tile(void* to, const CUtensorMap* map, int column, int row, int plane,
                                          Barrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(to)),
        "l"(map), "r"(column), "r"(row), "r"(plane), "r"(shared_address(barrier))
        : "memory");
}

// Multicast: copies the tile to the same offset in the shared memory of each block of the cluster in the bit mask
// `blocks`, and counts its bytes at the same barrier of each of them.
__device__ __forceinline__ void load_tile_everywhere(void* to, const CUtensorMap* map, int column, int row,
                                                     Barrier* barrier, unsigned short blocks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
        "l"(map), "r"(column), "r"(row), "r"(shared_address(barrier)), "h"(blocks)
        : "memory");
}

__device__ __forceinline__ void store_tile(const CUtensorMap* map, const void* from, int column, int row) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
                 "r"(shared_address(from)), "r"(column), "r"(row)
                 : "memory");
}

__device__ __forceinline__ void store_tile(const CUtensorMap* map, const void* from, int column, int row, int plane) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(shared_address(from)), "r"(column), "r"(row), "r"(plane)
                 : "memory");
}

__device__ __forceinline__ void commit_stores() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most LEFT of this thread's groups of stores still read shared memory.
template <int LEFT>
__device__ __forceinline__ void wait_stores_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}

// Makes what this thread wrote to shared memory visible to the copy engine and to the tensor cores.
__device__ __forceinline__ void fence_async_proxy() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- Barriers of a part of the block

template <int OF_THREADS>
__device__ __forceinline__ void sync_threads(unsigned barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(OF_THREADS) : "memory");
}

// Arrives at a barrier at which other threads wait by sync_threads; OF_THREADS is the number of both together.
template <int OF_THREADS>
__device__ __forceinline__ void arrive_threads(unsigned barrier) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(OF_THREADS) : "memory");
}

template <int REGISTERS>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// ---- Products (wgmma): 64 rows by COLS columns of float sums, in the registers of the 128 threads of four warps.
//
// Warp w has rows 16 w to 16 w + 15. A thread's sums 4 j to 4 j + 3 are in column 8 j + 2 (lane % 4) and the next one:
// the first two in row lane / 4, the others eight rows below.

// Descriptor of a tile in shared memory whose rows are 128 bytes along k, written with the 128-byte swizzle, at an
// address that is a multiple of 1024. Adding 2 to the descriptor moves it by 32 bytes along k, which is one product.
__device__ __forceinline__ unsigned long long tile_descriptor(const void* tile) {
    constexpr unsigned long long eight_rows = 1024 / 16, swizzle_128 = 1;
    return (shared_address(tile) & 0x3ffff) / 16 | 1ull << 16 | eight_rows << 32 | swizzle_128 << 62;
}

// Descriptor of a tile that is written in the same way, with rows of 64 columns, but whose rows count k, as those of V
// do. The next 64 columns are `bytes` further on. Adding 128 moves it by 16 rows along k, which is one product.
__device__ __forceinline__ unsigned long long columns_descriptor(const void* tile, unsigned bytes) {
    constexpr unsigned long long eight_rows = 1024 / 16, swizzle_128 = 1;
    return (shared_address(tile) & 0x3ffff) / 16 | static_cast<unsigned long long>(bytes / 16) << 16 | eight_rows << 32 |
           swizzle_128 << 62;
}

__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most LEFT of this warpgroup's groups of products are pending.
template <int LEFT>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

#define HOPPER_SUMS_4(s, i) "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3])
#define HOPPER_SUMS_16(s, i) \
    HOPPER_SUMS_4(s, i), HOPPER_SUMS_4(s, i + 4), HOPPER_SUMS_4(s, i + 8), HOPPER_SUMS_4(s, i + 12)
#define HOPPER_SUMS_32(s, i) HOPPER_SUMS_16(s, i), HOPPER_SUMS_16(s, i + 16)
#define HOPPER_SUMS_64(s, i) HOPPER_SUMS_32(s, i), HOPPER_SUMS_32(s, i + 32)
#define HOPPER_SUMS_128(s, i) HOPPER_SUMS_64(s, i), HOPPER_SUMS_64(s, i + 64)
#define HOPPER_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define HOPPER_NAMES_32 \
    HOPPER_NAMES_16     \
    ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define HOPPER_NAMES_64 \
    HOPPER_NAMES_32     \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
    ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define HOPPER_SUMS_24(s, i) HOPPER_SUMS_16(s, i), HOPPER_SUMS_4(s, i + 16), HOPPER_SUMS_4(s, i + 20)
#define HOPPER_SUMS_48(s, i) HOPPER_SUMS_32(s, i), HOPPER_SUMS_16(s, i + 32)
#define HOPPER_NAMES_24 \
    HOPPER_NAMES_16     \
    ", %16, %17, %18, %19, %20, %21, %22, %23"
#define HOPPER_NAMES_48 \
    HOPPER_NAMES_32     \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define HOPPER_SUMS_72(s, i) HOPPER_SUMS_64(s, i), HOPPER_SUMS_4(s, i + 64), HOPPER_SUMS_4(s, i + 68)
#define HOPPER_SUMS_80(s, i) HOPPER_SUMS_64(s, i), HOPPER_SUMS_16(s, i + 64)
#define HOPPER_SUMS_88(s, i) HOPPER_SUMS_80(s, i), HOPPER_SUMS_4(s, i + 80), HOPPER_SUMS_4(s, i + 84)
#define HOPPER_SUMS_96(s, i) HOPPER_SUMS_64(s, i), HOPPER_SUMS_32(s, i + 64)
#define HOPPER_NAMES_72 \
    HOPPER_NAMES_64     \
    ", %64, %65, %66, %67, %68, %69, %70, %71"
#define HOPPER_NAMES_80 \
    HOPPER_NAMES_72     \
    ", %72, %73, %74, %75, %76, %77, %78, %79"
#define HOPPER_NAMES_88 \
    HOPPER_NAMES_80     \
    ", %80, %81, %82, %83, %84, %85, %86, %87"
#define HOPPER_NAMES_96 \
    HOPPER_NAMES_88     \
    ", %88, %89, %90, %91, %92, %93, %94, %95"
#define HOPPER_NAMES_128 \
    HOPPER_NAMES_64      \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
    ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// sums = a . b^T (+ sums if `add`): 64 rows of `a`, COLS rows of `b`, 32 bytes along k.
#define HOPPER_PRODUCT(NAME, SHAPE, TYPES, SUMS, A, B, ADD, LAYOUT)                                            \
    __device__ __forceinline__ void NAME(float (&sums)[SUMS], unsigned long long a, unsigned long long b,      \
                                         bool add) {                                                           \
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\n"                                      \
                     "wgmma.mma_async.sync.aligned." SHAPE ".f32." TYPES " {" HOPPER_NAMES_##SUMS "}, " A ", " B  \
                     ", add, 1, 1" LAYOUT ";\n}"                                                               \
                     : HOPPER_SUMS_##SUMS(sums, 0)                                                             \
                     : "l"(a), "l"(b), "r"(static_cast<int>(add)));                                            \
    }
#define HOPPER_BF16(SHAPE, SUMS, A, B, ADD) \
    HOPPER_PRODUCT(multiply_bf16, SHAPE, "bf16.bf16", SUMS, A, B, ADD, ", 0, 0")

HOPPER_BF16("m64n32k16", 16, "%16", "%17", "%18")
HOPPER_BF16("m64n48k16", 24, "%24", "%25", "%26")
HOPPER_BF16("m64n64k16", 32, "%32", "%33", "%34")
HOPPER_BF16("m64n96k16", 48, "%48", "%49", "%50")
HOPPER_BF16("m64n128k16", 64, "%64", "%65", "%66")
HOPPER_BF16("m64n144k16", 72, "%72", "%73", "%74")
HOPPER_BF16("m64n160k16", 80, "%80", "%81", "%82")
HOPPER_BF16("m64n176k16", 88, "%88", "%89", "%90")
HOPPER_BF16("m64n192k16", 96, "%96", "%97", "%98")
HOPPER_BF16("m64n256k16", 128, "%128", "%129", "%130")
HOPPER_PRODUCT(multiply_e4m3, "m64n256k32", "e4m3.e4m3", 128, "%128", "%129", "%130", "")

// The same with the 64 rows by 16 columns of `a` in registers, two values in each, in the layout of mma.sync, and with
// `b` in a tile of columns_descriptor.
#define HOPPER_BF16_FROM_REGISTERS(SHAPE, SUMS, A, B, ADD)                                                       \
    __device__ __forceinline__ void multiply_bf16(float (&sums)[SUMS], const unsigned (&a)[4], unsigned long long b, \
                                                  bool add) {                                                    \
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\n"                                        \
                     "wgmma.mma_async.sync.aligned." SHAPE ".f32.bf16.bf16 {" HOPPER_NAMES_##SUMS "}, {" A "}, " B \
                     ", add, 1, 1, 1;\n}"                                                                        \
                     : HOPPER_SUMS_##SUMS(sums, 0)                                                               \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));          \
    }

HOPPER_BF16_FROM_REGISTERS("m64n64k16", 32, "%32, %33, %34, %35", "%36", "%37")
HOPPER_BF16_FROM_REGISTERS("m64n128k16", 64, "%64, %65, %66, %67", "%68", "%69")

// Stores four matrices of 8 x 8 16-bit elements: the rows of matrix i to the addresses of lanes 8 i to 8 i + 7.
__device__ __forceinline__ void store_matrices(unsigned address, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
                 "r"(c), "r"(d)
                 : "memory");
}
