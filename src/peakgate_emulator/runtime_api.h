// Interface between compiled kernels and the runtime. Included by both sides, so it must not need other headers.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct uint3 {
    unsigned x, y, z;
};

enum PeakgateBarrier { PEAKGATE_BARRIER_PLAIN, PEAKGATE_BARRIER_COUNT, PEAKGATE_BARRIER_AND, PEAKGATE_BARRIER_OR };

enum PeakgateWarpOperation {
    PEAKGATE_WARP_SYNC,
    PEAKGATE_WARP_SHUFFLE_INDEX,
    PEAKGATE_WARP_SHUFFLE_UP,
    PEAKGATE_WARP_SHUFFLE_DOWN,
    PEAKGATE_WARP_SHUFFLE_XOR,
    PEAKGATE_WARP_BALLOT,
    PEAKGATE_WARP_TOGETHER, // all 32 lanes: the last one to arrive calls `together` with the pointers that they offer
    // From here on every lane receives the values of all lanes, 32 times `size` bytes.
    PEAKGATE_WARP_MATCH,
    PEAKGATE_WARP_REDUCE,
    PEAKGATE_WARP_GROUP
};

struct PeakgateWarpCall {
    PeakgateWarpOperation operation;
    unsigned mask;     // the lanes that take part
    const void* value; // this lane's value; null for a plain sync
    void* result;      // destination of a shuffle's value, or of the values of all lanes
    int size;          // bytes of value and result, at most 8
    int lane;          // source lane, distance or lane mask of a shuffle
    int width;         // lanes of a sub-group
    void (*together)(void* const* offered) = nullptr;
};

// As on a GPU, the first bytes of shared memory are not the kernel's, and the last 18 bits of a pointer into it are those of the
// address in shared memory, from which kernels make matrix descriptors.
#define PEAKGATE_RESERVED_SHARED 1024
#define PEAKGATE_MAX_DYNAMIC_SHARED 232448 // 227 KiB, the largest limit of any GPU so far

// Description of one parameter of a kernel for the launcher.
struct PeakgateParameter {
    uint32_t size; // bytes of the argument itself
    uint32_t is_pointer;
    uint32_t points_to_const;
    uint32_t element_size;        // bytes of the pointed-to type; 0 for a void pointer
    uint32_t element_is_floating; // of the pointed-to element, or of the argument itself
    uint32_t element_is_scalar;   // false for structs such as float4
    uint32_t element_format;      // of __half and the like: 16 * bits of the mantissa + bits of the exponent; otherwise 0
};

#define PEAKGATE_API extern "C" __attribute__((visibility("default")))

// The built-in variables. They never change for one CUDA thread, so kernels see them as constants, which have no hooks.
// (Single numbers, since clang does not treat an external struct as a constant.) Only the runtime writes them.
#ifdef PEAKGATE_RUNTIME
#define PEAKGATE_BUILTIN(name) PEAKGATE_API unsigned name##_x, name##_y, name##_z
#else
#define PEAKGATE_BUILTIN(name) PEAKGATE_API const unsigned name##_x, name##_y, name##_z
#endif
PEAKGATE_BUILTIN(peakgate_thread);
PEAKGATE_BUILTIN(peakgate_block);
PEAKGATE_BUILTIN(peakgate_block_size);
PEAKGATE_BUILTIN(peakgate_grid_size);
PEAKGATE_BUILTIN(peakgate_cluster_size); // in blocks
#undef PEAKGATE_BUILTIN

// Reports a launch with more threads in a block than the kernel's launch bounds allow.
PEAKGATE_API void peakgate_check_threads(unsigned allowed, const void* caller);

// Checks a load that need not see the writes of its own launch (`__ldg`, ld.global.nc).
PEAKGATE_API void peakgate_read_only(const void* address, size_t size, const void* caller);
// The contents of these bytes become indeterminate (discard).
PEAKGATE_API void peakgate_discard(void* address, size_t size, const void* caller);

// PTX's carry flag. Nothing else runs between two instructions that pass it on.
#ifndef PEAKGATE_RUNTIME
extern "C" unsigned peakgate_carry;
#endif

// Ends the thread (exit).
PEAKGATE_API [[noreturn]] void peakgate_exit();

// A barrier is identified by `site`, its position in the source, since an optimizer may copy or merge the calls. In inline
// PTX sites are below 0: warps may come from different ones, from this one also lanes of one warp.
constexpr int PEAKGATE_ANY_SITE = -1;
PEAKGATE_API void peakgate_syncthreads(int site);
PEAKGATE_API int peakgate_barrier(int kind, int predicate, int site);

// The same on behalf of the code at `caller`.
PEAKGATE_API int peakgate_barrier_from(int kind, int predicate, int site, const void* caller);

// Start of a block's shared memory.
PEAKGATE_API char* peakgate_shared_base();
PEAKGATE_API int peakgate_is_shared(const void* address); // also of another block of the cluster

// Clusters: blocks that run together and access each other's shared memory (clusters.cpp). A kernel with
// `__cluster_dims__` calls the first of these before anything else.
PEAKGATE_API void peakgate_cluster_dims(unsigned x, unsigned y, unsigned z);
PEAKGATE_API unsigned peakgate_cluster_rank();
PEAKGATE_API void peakgate_cluster_arrive(int releases, const void* caller);
PEAKGATE_API void peakgate_cluster_wait(int site, const void* caller);
// An address in shared memory as in PTX, 32 bits with the block's rank above the offset, and as a pointer. The rank's
// last bit is the one that kernels for pairs of blocks clear (0xfeffffff).
#define PEAKGATE_RANK_SHIFT 24
#ifdef PEAKGATE_RUNTIME
PEAKGATE_API unsigned peakgate_own_window;
#else
PEAKGATE_API const unsigned peakgate_own_window; // the own block's rank in its place; 0 without a cluster
#endif
PEAKGATE_API char* peakgate_cluster_pointer(uint32_t address);
PEAKGATE_API uint64_t peakgate_cluster_address(const void* pointer);
// Takes the next cluster off the launch (cluster launch control); the answer of 16 bytes, whether there was one and the
// index of its first block, arrives in shared memory as a copy does, `to_all`: in that of all blocks of the own cluster.
PEAKGATE_API void peakgate_try_cancel(void* to, const void* barrier, int to_all, const void* caller);
// The corresponding address in another block's shared memory.
PEAKGATE_API void* peakgate_map_shared(const void* pointer, unsigned rank, const void* caller);

// PTX's barrier `name` for `threads` threads (0: all); `waits`: bar.sync, otherwise bar.arrive.
PEAKGATE_API void peakgate_named_barrier(int name, int threads, int waits, const void* caller);

// A barrier object in memory (cuda::barrier, mbarrier). An arrival returns its phase; a wait returns whether the phase
// has ended, after waiting for it if it BLOCKS; otherwise others may run before the answer. `how` has flags.
enum PeakgateSync {
    PEAKGATE_LEAVES = 1,    // the thread does not take part in later phases
    PEAKGATE_BLOCKS = 1,    // of a wait
    PEAKGATE_UNORDERED = 2, // `.relaxed`: orders only what fences do
    PEAKGATE_NARROW = 4     // written block scope: orders nothing between blocks
};
PEAKGATE_API void peakgate_sync_init(void* object, int expected, const void* caller);
// Reports an object in use where a new one is to be made (mbarrier.init).
PEAKGATE_API void peakgate_sync_fresh(const void* object, const void* caller);
PEAKGATE_API void peakgate_sync_invalidate(void* object, const void* caller);
PEAKGATE_API uint64_t peakgate_sync_arrive(void* object, int count, int how, const void* caller);
PEAKGATE_API int peakgate_sync_wait(void* object, uint64_t phase, int how, const void* caller);
PEAKGATE_API int peakgate_sync_parity(void* object, int parity, int how, const void* caller);
// Announces bytes that copies must bring before the phase ends; `arrived`: they have arrived without a copy.
PEAKGATE_API void peakgate_sync_bytes(void* object, unsigned bytes, int arrived, const void* caller);

// The barrier of a cooperative launch's grid.
PEAKGATE_API void peakgate_grid_barrier(const void* caller);
PEAKGATE_API int peakgate_is_cooperative();

// Waits until no lane of the warp can continue without the others; returns the lanes that wait at the same site.
PEAKGATE_API unsigned peakgate_converge(int site, const void* caller);

// `caller` is the address in the kernel at which a defect is reported. Returns the ballot, if there is one, or the
// participating lanes if the values of all lanes are received.
PEAKGATE_API unsigned peakgate_warp(const PeakgateWarpCall* call, const void* caller);
// The warp has set its number of registers, as the other three of its group must.
PEAKGATE_API void peakgate_registers(unsigned count, const void* caller);
// Reports that lanes of a group are missing from an operation that needs a value of each.
PEAKGATE_API void peakgate_absent(unsigned lanes, const void* caller);

// Atomics, strong loads and stores, fences (order.cpp defines what each of them orders). `peakgate_strong` is called
// before the access and may let other threads run; `expected` is the expected value of a compare-and-swap, null
// otherwise.
enum PeakgateOrder { PEAKGATE_RELAXED = 0, PEAKGATE_ACQUIRE = 1, PEAKGATE_RELEASE = 2, PEAKGATE_ACQ_REL = 3 };
enum PeakgateScope { PEAKGATE_THREAD, PEAKGATE_BLOCK, PEAKGATE_CLUSTER, PEAKGATE_DEVICE };
// An exchange does not depend on the value that it replaces.
enum PeakgateStrong { PEAKGATE_LOAD, PEAKGATE_STORE, PEAKGATE_UPDATE, PEAKGATE_EXCHANGE };
PEAKGATE_API void peakgate_strong(const void* address, int size, int what, int order, int scope, const void* expected,
                                  const void* caller);
PEAKGATE_API void peakgate_fence(int order, int scope);
// Orders the thread's writes before asynchronous operations; `covers` has flags.
enum PeakgateProxy { PEAKGATE_OF_SHARED = 1, PEAKGATE_OF_GLOBAL = 2, PEAKGATE_OF_BARRIERS = 4 };
PEAKGATE_API void peakgate_proxy_fence(int covers);
// An access by the emulator's own headers, on behalf of the kernel's line that called them.
PEAKGATE_API void peakgate_access(const void* address, size_t size, int writes, const void* caller);
// The same for a row of a matrix, which must begin on a multiple of `size`; only that is checked if `writes` is -1.
PEAKGATE_API void peakgate_row(const void* address, size_t size, int writes, const void* caller);
PEAKGATE_API long long peakgate_clock();
PEAKGATE_API void* peakgate_memcpy(void* destination, const void* source, size_t bytes);
PEAKGATE_API void* peakgate_memset(void* destination, int value, size_t bytes);
PEAKGATE_API void* peakgate_malloc(size_t bytes);
PEAKGATE_API void peakgate_free(void* address);
PEAKGATE_API void peakgate_not_emulated(const char* feature);
PEAKGATE_API void peakgate_assertion(const char* condition);
// Reports a call of a library's function that does not meet this condition.
PEAKGATE_API void peakgate_precondition(const char* condition, const void* caller);

// Textures and surfaces: an object is the address of its description in the runtime.
struct PeakgateFetch {
    const char* function;
    unsigned long long object;
    int dimensions; // of the coordinates; 0: `texel` counts the texels of linear memory
    int layered;
    float at[3];
    int texel; // of linear memory, or the layer
    int channels, wants_floats; // of the result
};
// Writes as many floats, or 32-bit integers, as the result has channels.
PEAKGATE_API void peakgate_fetch(const PeakgateFetch* fetch, void* result, const void* caller);

enum PeakgateBoundary { PEAKGATE_BOUNDARY_ZERO, PEAKGATE_BOUNDARY_CLAMP, PEAKGATE_BOUNDARY_TRAP };
struct PeakgateSurfaceAccess {
    const char* function;
    unsigned long long object;
    int dimensions, layered;
    int at[3]; // bytes, then rows, then slices or the layer
    int size;  // bytes of the value
    PeakgateBoundary boundary;
};
PEAKGATE_API void peakgate_surface_read(const PeakgateSurfaceAccess* access, void* value, const void* caller);
PEAKGATE_API void peakgate_surface_write(const PeakgateSurfaceAccess* access, const void* value, const void* caller);

// Asynchronous copies, performed only at the wait that completes their group. The last `bytes - source_bytes` bytes of
// the destination are filled with zeros. `groups_left` is how many of the newest committed groups may stay open.
PEAKGATE_API void peakgate_async_copy(void* shared_destination, const void* global_source, int bytes, int source_bytes);
PEAKGATE_API void peakgate_async_commit();
// Copies that are in no group yet complete when this barrier object's phase ends.
PEAKGATE_API void peakgate_async_bind(const void* object);
PEAKGATE_API void peakgate_async_bind_all(const void* object); // the same for all copies in flight
PEAKGATE_API void peakgate_async_wait(int groups_left);

// Copies by the copy engine, of bytes or of a tensor map's tile at these coordinates. Copies to shared memory complete
// when the barrier object's phase ends, copies from it when their group is waited for.
#define PEAKGATE_TENSOR_MAP 0x70614d726f736e65ull // the first word of a CUtensorMap; the second is the launch's TensorMap
struct PeakgateTile {
    const void* map;
    int axes;
    int at[5];
};
// To shared memory of the blocks of the cluster with a bit in `blocks`, at the same offsets; 0: only at `to` itself.
// `pairs`: the barrier object may be in the other block of the pair (cta_group::2).
PEAKGATE_API void peakgate_load_tile(void* to, const PeakgateTile* tile, const void* barrier, unsigned blocks, int pairs, const void* caller);
PEAKGATE_API void peakgate_store_tile(const PeakgateTile* tile, const void* from, const void* caller);
PEAKGATE_API void peakgate_load_bulk(void* to, const void* from, unsigned bytes, const void* barrier, unsigned blocks,
                                     const void* caller);
// From the own shared memory, or a value of up to 16 bytes (`st.async`), to the shared memory of a block of the
// cluster.
PEAKGATE_API void peakgate_send_bulk(void* to, const void* from, unsigned bytes, const void* barrier, const void* caller);
PEAKGATE_API void peakgate_send_value(void* to, const void* value, unsigned bytes, const void* barrier, const void* caller);
PEAKGATE_API void peakgate_store_bulk(void* to, const void* from, unsigned bytes, const void* caller);
// The same, combining each element with the one in global memory, as an atomic of the device.
struct PeakgateReduction {
    int size; // of an element
    void (*combine)(void* to, const void* from);
};
PEAKGATE_API void peakgate_reduce_bulk(void* to, const void* from, unsigned bytes, const PeakgateReduction* reduction, const void* caller);
// red.async: combines a value with one in another block's shared memory, and counts its bytes at a barrier object there.
PEAKGATE_API void peakgate_reduce_value(void* to, const void* value, unsigned bytes, const void* barrier,
                                        const PeakgateReduction* reduction, const void* caller);
PEAKGATE_API void peakgate_bulk_commit();
// `reads_only`: waits only until they have read shared memory.
PEAKGATE_API void peakgate_bulk_wait(int groups_left, int reads_only);

// Number formats of matrices (matrix_products.cpp).
enum PeakgateNumber {
    PEAKGATE_F16,
    PEAKGATE_BF16,
    PEAKGATE_TF32,
    PEAKGATE_F32,
    PEAKGATE_F64,
    PEAKGATE_E4M3,
    PEAKGATE_E5M2,
    PEAKGATE_S8,
    PEAKGATE_U8,
    PEAKGATE_S4,
    PEAKGATE_U4,
    PEAKGATE_S32
};

// A product of `rows` x 8 sums by a warp, and a lane's fragments: registers of A, of B and of the sums, which are
// replaced. A sparse A has half of its columns; before it are its metadata, and the selector of lanes whose it is.
enum PeakgateSparsity { PEAKGATE_DENSE, PEAKGATE_SPARSE, PEAKGATE_SPARSE_ORDERED };
struct PeakgateWarpProduct {
    int rows, depth;
    PeakgateNumber a, b, sums;
    int clamps;
    PeakgateSparsity sparsity;
};
struct PeakgateFragments {
    const PeakgateWarpProduct* product;
    uint64_t* registers;
    const void* caller;
};
// Called by the last lane to arrive, with the PeakgateFragments of each lane; part of a kernel's image, not of the runtime.
PEAKGATE_API void peakgate_multiply(void* const* offered);

// Products by a warpgroup (tensor_cores.cpp); all lanes of a warp issue theirs together.
struct PeakgateProduct;
// sums += a . b for a warp's rows; rows of a and b are 32 bytes along k, those of b 64 if A is sparse, the sums are those
// of all lanes.
PEAKGATE_API void peakgate_multiply_rows(const PeakgateProduct* product, const unsigned char* a, const unsigned char* b, uint32_t* sums);
struct PeakgateProduct {
    PeakgateNumber number_a, number_b, number_sums;
    void* const* sums;              // addresses of the lane's registers
    const uint32_t* registers_of_a; // null: A is in shared memory
    uint64_t a, b;                  // matrix descriptors
    int columns, registers;
    int adds, scale_a, scale_b, transposes_a, transposes_b, clamps;
    // Of a sparse A the column of each number, by row, of which rows of b have twice as many; null: A is dense.
    const unsigned char* selected;
    decltype(peakgate_multiply_rows)* multiply;
};
PEAKGATE_API void peakgate_wgmma(const PeakgateProduct* product, const void* caller);
PEAKGATE_API void peakgate_wgmma_fence(const void* caller);
PEAKGATE_API void peakgate_wgmma_commit(const void* caller);
PEAKGATE_API void peakgate_wgmma_wait(int groups_left, const void* caller);

// Tensor memory (tensor_memory.cpp); an address has the lane above the column. All lanes of a warp call the functions
// together, except for the fence and the commit.
enum PeakgateTensorShape { PEAKGATE_32X32B, PEAKGATE_16X64B, PEAKGATE_16X128B, PEAKGATE_16X256B, PEAKGATE_16X32BX2 };
// `blocks`: 1, or 2 for an instruction of a pair of blocks (cta_group).
PEAKGATE_API void peakgate_tensor_alloc(void* to, unsigned columns, int blocks, const void* caller);
PEAKGATE_API void peakgate_tensor_dealloc(uint32_t address, unsigned columns, int blocks, const void* caller);
PEAKGATE_API void peakgate_tensor_relinquish(int blocks, const void* caller);
// Between `count` registers of each lane and the words of a shape; `packs`: the lower halves of two columns in one. The
// last 16 lanes of 16x32bx2 have those that are `split` columns further on.
PEAKGATE_API void peakgate_tensor_move(uint32_t address, int shape, int split, int count, int packs, int loads, uint32_t* registers,
                                       const void* caller);
PEAKGATE_API void peakgate_tensor_wait(int stores, const void* caller);
PEAKGATE_API void peakgate_tensor_fence(int after);
// Arrives at a barrier object when the thread's products and copies are complete; at those at the same place in the
// blocks of the cluster with a bit in `to_blocks` unless it is 0.
PEAKGATE_API void peakgate_tensor_commit(void* barrier, int blocks, unsigned to_blocks, const void* caller);

// Products and copies, issued by one thread (tensor_products.cpp). The descriptors are those of the PTX ISA.
enum PeakgateTensorKind {
    PEAKGATE_KIND_F16,
    PEAKGATE_KIND_TF32,
    PEAKGATE_KIND_F8F6F4,
    PEAKGATE_KIND_I8,
    // with block scales
    PEAKGATE_KIND_MXF8F6F4,
    PEAKGATE_KIND_MXF4,
    PEAKGATE_KIND_MXF4NVF4
};
struct PeakgateTensorProduct {
    uint32_t to;
    uint64_t a; // a descriptor, or an address in tensor memory
    uint64_t b;
    uint32_t instruction;
    PeakgateTensorKind kind;
    int a_in_tensor_memory, adds;
    uint32_t disabled[8]; // a bit for each lane that is not written, 128 lanes per block
    int blocks;           // 1, or 2: a pair
    int is_stationary;    // tcgen05.mma.ws
    int is_sparse;        // tcgen05.mma.sp
    uint32_t metadata;    // its address in tensor memory
    uint64_t zero_columns; // its mask of columns
    int halvings;         // how often the sums are halved before the products are added
    int scales;           // of a row in its depth; 0: none
    uint32_t scales_a, scales_b; // addresses in tensor memory
    decltype(peakgate_multiply_rows)* multiply;
};
PEAKGATE_API void peakgate_tensor_multiply(const PeakgateTensorProduct* product, const void* caller);
// Copies `rows` of 16 * `units` bytes; `repeats`: 4, or 2 to lanes 64 further on, or -2 to lanes 32 further on. Of 4 rows each
// goes to one lane of a warp.
PEAKGATE_API void peakgate_tensor_copy(uint32_t to, uint64_t from, int rows, int units, int repeats, int blocks, const void* caller);
