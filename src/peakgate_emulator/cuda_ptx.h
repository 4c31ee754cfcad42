// Functions used by inline PTX that ptx.py has translated to C++: registers have 64 bits and are read as any type.
#pragma once

namespace peakgate_ptx {

// Signed numbers are sign-extended, as when 8 bits are loaded into a 32-bit register.
template <class T> __attribute__((always_inline)) inline uint64_t bits(T value) {
    uint64_t result = 0;
    __builtin_memcpy(&result, &value, sizeof(T) < 8 ? sizeof(T) : 8);
    return result;
}
inline uint64_t bits(signed char value) { return static_cast<uint64_t>(value); }
inline uint64_t bits(short value) { return static_cast<uint64_t>(value); }
__attribute__((always_inline)) inline uint64_t bits(int value) { return static_cast<uint64_t>(value); }
template <class T> __attribute__((always_inline)) inline T get(uint64_t from) {
    T value;
    __builtin_memcpy(&value, &from, sizeof(T));
    return value;
}
template <class T> inline void assign(T& to, uint64_t from) { to = get<T>(from); }
template <class T> inline void assign(volatile T& to, uint64_t from) { to = get<T>(from); }
// Registers of 128 bits.
inline unsigned __int128 bits(unsigned __int128 value) { return value; }
inline unsigned __int128 bits(__int128 value) { return static_cast<unsigned __int128>(value); }
template <class T> inline T get(unsigned __int128 from) { return static_cast<T>(from); }
template <class T> inline T get(unsigned long long from) { return get<T>(static_cast<uint64_t>(from)); } // of a constant
template <class T> inline void assign(T& to, unsigned __int128 from) { to = static_cast<T>(from); }

inline unsigned rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

// An address in shared memory is an offset of 32 bits, as on a GPU, with the block's rank in the cluster above it.
inline char* shared(uint64_t offset) {
    const auto address = static_cast<uint32_t>(offset), own = address ^ peakgate_own_window;
    return own >> PEAKGATE_RANK_SHIFT ? peakgate_cluster_pointer(address) : peakgate_shared_base() + own;
}
inline char* generic(uint64_t address) { return reinterpret_cast<char*>(address); }
inline uint64_t shared_offset(uint64_t pointer) {
    const uint64_t offset = pointer - reinterpret_cast<uint64_t>(peakgate_shared_base());
    return offset >> PEAKGATE_RANK_SHIFT ? peakgate_cluster_address(reinterpret_cast<const void*>(pointer)) : offset | peakgate_own_window;
}
inline uint64_t shared_pointer(uint64_t offset) { return reinterpret_cast<uint64_t>(shared(offset)); }

#define PEAKGATE_PTX_CALL __attribute__((noinline, no_sanitize("thread")))
PEAKGATE_PTX_CALL inline void named_barrier(int name, int threads, int waits) {
    peakgate_named_barrier(name, threads, waits, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void read_only(const void* at, size_t size) { peakgate_read_only(at, size, __builtin_return_address(0)); }
PEAKGATE_PTX_CALL inline void discard(void* at, size_t size) { peakgate_discard(at, size, __builtin_return_address(0)); }
// A vector of atomics must be aligned to its size.
PEAKGATE_PTX_CALL inline void whole_vector(const void* at, size_t size) { peakgate_row(at, size, -1, __builtin_return_address(0)); }
PEAKGATE_PTX_CALL inline void mbarrier_init(void* at, int count) {
    peakgate_sync_fresh(at, __builtin_return_address(0));
    peakgate_sync_init(at, count, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline uint64_t mbarrier_arrive(void* at, int count, int how) {
    return peakgate_sync_arrive(at, count, how, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void mbarrier_bytes(void* at, unsigned bytes, int arrived) {
    peakgate_sync_bytes(at, bytes, arrived, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void load_tile(void* to, const PeakgateTile* tile, const void* barrier, unsigned blocks, int pairs) {
    peakgate_load_tile(to, tile, barrier, blocks, pairs, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void store_tile(const PeakgateTile* tile, const void* from) {
    peakgate_store_tile(tile, from, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void load_bulk(void* to, const void* from, unsigned bytes, const void* barrier, unsigned blocks) {
    peakgate_load_bulk(to, from, bytes, barrier, blocks, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void send_bulk(void* to, const void* from, unsigned bytes, const void* barrier) {
    peakgate_send_bulk(to, from, bytes, barrier, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void send_value(void* to, const void* value, unsigned bytes, const void* barrier) {
    peakgate_send_value(to, value, bytes, barrier, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void store_bulk(void* to, const void* from, unsigned bytes) {
    peakgate_store_bulk(to, from, bytes, __builtin_return_address(0));
}
// Operations of cp.reduce.async.bulk.
#define PEAKGATE_REDUCTION(name, combined)                                                                             \
    struct name {                                                                                                      \
        template <class T> __attribute__((no_sanitize("thread"))) static void apply(void* to, const void* from) {      \
            const T a = *static_cast<const T*>(to), b = *static_cast<const T*>(from);                                  \
            *static_cast<T*>(to) = (combined);                                                                         \
        }                                                                                                              \
    };
PEAKGATE_REDUCTION(Add, a + b)
PEAKGATE_REDUCTION(Min, b < a ? b : a)
PEAKGATE_REDUCTION(Max, a < b ? b : a)
PEAKGATE_REDUCTION(And, a& b)
PEAKGATE_REDUCTION(Or, a | b)
PEAKGATE_REDUCTION(Xor, a ^ b)
PEAKGATE_REDUCTION(Inc, a >= b ? 0 : a + 1)
PEAKGATE_REDUCTION(Dec, a == 0 || a > b ? b : a - 1)
template <class T, class Operation> PEAKGATE_PTX_CALL void reduce_bulk(void* to, const void* from, unsigned bytes) {
    const PeakgateReduction reduction = {sizeof(T), Operation::template apply<T>};
    peakgate_reduce_bulk(to, from, bytes, &reduction, __builtin_return_address(0));
}
template <class T, class Operation> PEAKGATE_PTX_CALL void reduce_value(void* to, T value, const void* barrier) {
    const PeakgateReduction reduction = {sizeof(T), Operation::template apply<T>};
    peakgate_reduce_value(to, &value, sizeof(T), barrier, &reduction, __builtin_return_address(0));
}
// PTX's setmaxnreg, at which all lanes of the warp must arrive.
PEAKGATE_PTX_CALL inline void set_registers(unsigned count) {
    const void* nothing = nullptr;
    const PeakgateWarpCall call = {PEAKGATE_WARP_TOGETHER, ~0u, &nothing, nullptr, sizeof nothing, 0, warpSize, [](void* const*) {}};
    peakgate_warp(&call, __builtin_return_address(0));
    peakgate_registers(count, __builtin_return_address(0));
}
// Combines a number of each lane of a mask.
template <class F> PEAKGATE_HELPER float reduced_floats(unsigned mask, float value, F combined) {
    float all[warpSize];
    const PeakgateWarpCall call = {PEAKGATE_WARP_REDUCE, mask, &value, all, sizeof value, 0, warpSize};
    unsigned left = peakgate_warp(&call, PEAKGATE_CALLER);
    float found = all[__builtin_ctz(left)];
    for (left &= left - 1; left; left &= left - 1) found = combined(found, all[__builtin_ctz(left)]);
    return found;
}
PEAKGATE_PTX_CALL inline void try_cancel(void* to, const void* barrier, int to_all) {
    peakgate_try_cancel(to, barrier, to_all, __builtin_return_address(0));
}
// A word of the answer: whether a cluster was cancelled, then the index of its first block.
inline uint32_t cancelled(unsigned __int128 answer, int word) { return static_cast<uint32_t>(answer >> (32 * word)); }
// Ends a launch for an architecture without the features of 10.0a and 10.3a, or without those of the one that alone has
// them; `specific` is that of the build's macros.
inline void needs_features(int specific, const char* instruction, int of_one = 0) {
    if (of_one ? specific != of_one : specific != 1000 && specific != 1030) peakgate_not_emulated(instruction);
}
PEAKGATE_PTX_CALL inline void cluster_arrive(int releases) { peakgate_cluster_arrive(releases, __builtin_return_address(0)); }
PEAKGATE_PTX_CALL inline void cluster_wait(int site) { peakgate_cluster_wait(site, __builtin_return_address(0)); }
// The corresponding address in another block's shared memory, for a pointer or a 32-bit address.
PEAKGATE_PTX_CALL inline uint64_t mapped(uint64_t pointer, unsigned rank) {
    return reinterpret_cast<uint64_t>(peakgate_map_shared(generic(pointer), rank, __builtin_return_address(0)));
}
PEAKGATE_PTX_CALL inline uint64_t mapped_shared(uint64_t address, unsigned rank) {
    return shared_offset(reinterpret_cast<uint64_t>(peakgate_map_shared(shared(address), rank, __builtin_return_address(0))));
}
// The rank of the block whose shared memory contains an address.
inline unsigned rank_of(uint64_t address) { return static_cast<unsigned>(address) >> PEAKGATE_RANK_SHIFT; }
PEAKGATE_PTX_CALL inline void mbarrier_invalidate(void* at) { peakgate_sync_invalidate(at, __builtin_return_address(0)); }
PEAKGATE_PTX_CALL inline uint64_t mbarrier_phase(void* at, uint64_t phase, int how) {
    return static_cast<uint64_t>(peakgate_sync_wait(at, phase, how, __builtin_return_address(0)));
}
PEAKGATE_PTX_CALL inline uint64_t mbarrier_parity(void* at, uint64_t parity, int how) {
    return static_cast<uint64_t>(peakgate_sync_parity(at, static_cast<int>(parity), how, __builtin_return_address(0)));
}

} // namespace peakgate_ptx

inline size_t __cvta_generic_to_shared(const void* pointer) {
    return peakgate_ptx::shared_offset(reinterpret_cast<uint64_t>(pointer));
}
inline void* __cvta_shared_to_generic(size_t offset) { return peakgate_ptx::shared(offset); }
inline size_t __cvta_generic_to_global(const void* pointer) { return reinterpret_cast<size_t>(pointer); }
inline size_t __cvta_generic_to_constant(const void* pointer) { return reinterpret_cast<size_t>(pointer); }
inline size_t __cvta_generic_to_local(const void* pointer) { return reinterpret_cast<size_t>(pointer); }
inline size_t __cvta_generic_to_grid_constant(const void* pointer) { return reinterpret_cast<size_t>(pointer); }
inline void* __cvta_global_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
inline void* __cvta_constant_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
inline void* __cvta_local_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
inline void* __cvta_grid_constant_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
#define __barrier_sync(name) peakgate_ptx::named_barrier(name, 0, 1)
#define __barrier_sync_count(name, threads) peakgate_ptx::named_barrier(name, threads, 1)
