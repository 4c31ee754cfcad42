// CUB's reductions, scans, loads and stores of a warp and of a block. Included in place of cub/cub.cuh and of the
// headers of these classes.
//
// A block's primitives write one slot per thread, wait at a barrier and read the slots: reusing storage without a
// barrier is a race, as CUB's manual says. Sums are computed in thread order. Members pass on their return address,
// which gives the kernel's line.
#pragma once

#include "cuda_groups.h"

// Not an int, since a member may have an int parameter in this position.
struct PeakgateCubSite { int line; };
#define PEAKGATE_CUB_SITE PeakgateCubSite site = PeakgateCubSite{~static_cast<int>(__builtin_LINE())}
#define PEAKGATE_CUB_PLAIN __attribute__((no_sanitize("thread")))
#define PEAKGATE_CUB_INLINE __attribute__((always_inline)) // so that accesses to the caller's arrays have its lines
#define PEAKGATE_CUB_CALLER __builtin_return_address(0)

namespace cub {

struct Sum { template <class T> T operator()(const T& a, const T& b) const { return a + b; } };
struct Max { template <class T> T operator()(const T& a, const T& b) const { return a < b ? b : a; } };
struct Min { template <class T> T operator()(const T& a, const T& b) const { return b < a ? b : a; } };

template <class Key, class Value> struct KeyValuePair {
    Key key;
    Value value;
};
// Of equal values the one with the lesser key.
struct ArgMax {
    template <class Pair> Pair operator()(const Pair& a, const Pair& b) const {
        return a.value < b.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class Pair> Pair operator()(const Pair& a, const Pair& b) const {
        return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};

namespace details {

using namespace cooperative_groups::details;

// The existing lanes of the calling thread's logical warp.
inline unsigned warp_mask(unsigned size) {
    const unsigned first = lane() / size * size, begin = rank_in_block() - lane();
    const unsigned there = block_threads() - begin < 32 ? lanes(block_threads() - begin, 0) : ~0u;
    return lanes(size, first) & there;
}

template <class T, class Op> PEAKGATE_CUB_PLAIN T fold(const T* all, unsigned first, unsigned count, Op op) {
    T result = all[first];
    for (unsigned i = 1; i < count; ++i) result = op(result, all[first + i]);
    return result;
}

template <class T, class Op, int N> PEAKGATE_CUB_PLAIN T own(const T (&items)[N], Op op) {
    T result = items[0];
    for (int i = 1; i < N; ++i) result = op(result, items[i]);
    return result;
}

} // namespace details

namespace details {
// The result in a thread for which CUB does not define it: a large negative number.
template <class T> PEAKGATE_CUB_PLAIN T undefined() {
    T result;
    __builtin_memset(static_cast<void*>(&result), 0xfb, sizeof(T));
    return result;
}
} // namespace details

template <class T, int SIZE = 32, int...> class WarpReduce {
  public:
    struct TempStorage {};
    explicit WarpReduce(TempStorage&) {}
    template <class Op> PEAKGATE_MEMBER T Reduce(const T& input, Op op, int valid = SIZE) {
        return reduce(input, op, valid, PEAKGATE_CUB_CALLER);
    }
    PEAKGATE_MEMBER T Sum(const T& input, int valid = SIZE) { return reduce(input, cub::Sum(), valid, PEAKGATE_CUB_CALLER); }
    template <class Op, class Flag> PEAKGATE_MEMBER T HeadSegmentedReduce(const T& input, Flag is_head, Op op) {
        return segmented(input, is_head ? 1 : 0, op, 0, PEAKGATE_CUB_CALLER);
    }
    template <class Flag> PEAKGATE_MEMBER T HeadSegmentedSum(const T& input, Flag is_head) {
        return segmented(input, is_head ? 1 : 0, cub::Sum(), 0, PEAKGATE_CUB_CALLER);
    }
    template <class Op, class Flag> PEAKGATE_MEMBER T TailSegmentedReduce(const T& input, Flag is_tail, Op op) {
        return segmented(input, is_tail ? 1 : 0, op, 1, PEAKGATE_CUB_CALLER);
    }
    template <class Flag> PEAKGATE_MEMBER T TailSegmentedSum(const T& input, Flag is_tail) {
        return segmented(input, is_tail ? 1 : 0, cub::Sum(), 1, PEAKGATE_CUB_CALLER);
    }

  private:
    template <class Op> PEAKGATE_CUB_PLAIN T reduce(const T& input, Op op, int valid, const void* caller) {
        T all[32];
        const unsigned mask = details::warp_mask(SIZE);
        details::gather(mask, input, all, caller);
        const unsigned first = details::lane() / SIZE * SIZE, there = static_cast<unsigned>(__popc(mask));
        const auto count = static_cast<unsigned>(valid) < there ? static_cast<unsigned>(valid) : there;
        return details::lane() == first ? details::fold(all, first, count, op) : details::undefined<T>();
    }
    // The first lane of each segment gets its result. A flag is that of a segment's first lane, or of its last one, whose
    // successor is then the first of another.
    template <class Op> PEAKGATE_CUB_PLAIN T segmented(const T& input, int flag, Op op, unsigned behind, const void* caller) {
        T all[32];
        int flags[32];
        const unsigned mask = details::warp_mask(SIZE);
        details::gather(mask, input, all, caller);
        details::gather(mask, flag, flags, caller);
        const unsigned begin = details::lane() / SIZE * SIZE, lane = details::lane();
        const unsigned end = begin + static_cast<unsigned>(__popc(mask));
        if (lane != begin && !flags[lane - behind]) return details::undefined<T>();
        unsigned count = 1;
        while (lane + count < end && !flags[lane + count - behind]) ++count;
        return details::fold(all, lane, count, op);
    }
};

template <class T, int SIZE = 32, int...> class WarpScan {
  public:
    struct TempStorage {};
    explicit WarpScan(TempStorage&) {}
    template <class Op> PEAKGATE_MEMBER void InclusiveScan(const T& input, T& output, Op op) {
        T total;
        output = scan(input, total, op, nullptr, PEAKGATE_CUB_CALLER);
    }
    template <class Op> PEAKGATE_MEMBER void ExclusiveScan(const T& input, T& output, T initial, Op op) {
        T total;
        output = scan(input, total, op, &initial, PEAKGATE_CUB_CALLER);
    }
    PEAKGATE_MEMBER void InclusiveSum(const T& input, T& output) {
        T total;
        output = scan(input, total, cub::Sum(), nullptr, PEAKGATE_CUB_CALLER);
    }
    PEAKGATE_MEMBER void InclusiveSum(const T& input, T& output, T& total) {
        output = scan(input, total, cub::Sum(), nullptr, PEAKGATE_CUB_CALLER);
    }
    PEAKGATE_MEMBER void ExclusiveSum(const T& input, T& output) {
        T total;
        const T initial = T();
        output = scan(input, total, cub::Sum(), &initial, PEAKGATE_CUB_CALLER);
    }
    PEAKGATE_MEMBER void ExclusiveSum(const T& input, T& output, T& total) {
        const T initial = T();
        output = scan(input, total, cub::Sum(), &initial, PEAKGATE_CUB_CALLER);
    }
    PEAKGATE_MEMBER T Broadcast(const T& input, unsigned from) {
        T all[32];
        details::gather(details::warp_mask(SIZE), input, all, PEAKGATE_CUB_CALLER);
        return all[details::lane() / SIZE * SIZE + from];
    }

  private:
    template <class Op>
    PEAKGATE_CUB_PLAIN T scan(const T& input, T& total, Op op, const T* initial, const void* caller) {
        T all[32];
        const unsigned mask = details::warp_mask(SIZE);
        details::gather(mask, input, all, caller);
        const unsigned first = details::lane() / SIZE * SIZE, rank = details::lane() - first;
        total = details::fold(all, first, static_cast<unsigned>(__popc(mask)), op);
        if (!initial) return details::fold(all, first, rank + 1, op);
        return rank ? op(*initial, details::fold(all, first, rank, op)) : *initial;
    }
};

namespace details {

// One slot per thread in shared memory.
template <class T, int THREADS> struct Slots {
    T slots[THREADS];
    PEAKGATE_CUB_PLAIN T read(unsigned thread, const void* caller) const {
        peakgate_access(&slots[thread], sizeof(T), 0, caller);
        return slots[thread];
    }
    PEAKGATE_CUB_PLAIN void exchange(const T& value, PeakgateCubSite site, const void* caller) {
        T& own = slots[rank_in_block()];
        peakgate_access(&own, sizeof(T), 1, caller);
        own = value;
        peakgate_barrier_from(PEAKGATE_BARRIER_PLAIN, 0, site.line, caller);
    }
};

// The class's own storage, if a kernel gives none.
template <class Storage> Storage& private_storage() {
    __shared__ Storage storage;
    return storage;
}

} // namespace details

template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int...>
class BlockReduce {
  public:
    using TempStorage = details::Slots<T, X * Y * Z>;
    explicit BlockReduce(TempStorage& storage) : all(storage) {}
    BlockReduce() : all(details::private_storage<TempStorage>()) {}
    template <class Op> PEAKGATE_MEMBER T Reduce(const T& input, Op op, PEAKGATE_CUB_SITE) {
        return reduce(input, op, X * Y * Z, site, PEAKGATE_CUB_CALLER);
    }
    template <class Op> PEAKGATE_MEMBER T Reduce(const T& input, Op op, int valid, PEAKGATE_CUB_SITE) {
        return reduce(input, op, valid, site, PEAKGATE_CUB_CALLER);
    }
    template <int N, class Op> PEAKGATE_MEMBER T Reduce(const T (&input)[N], Op op, PEAKGATE_CUB_SITE) {
        return reduce(details::own(input, op), op, X * Y * Z, site, PEAKGATE_CUB_CALLER);
    }
    PEAKGATE_MEMBER T Sum(const T& input, PEAKGATE_CUB_SITE) {
        return reduce(input, cub::Sum(), X * Y * Z, site, PEAKGATE_CUB_CALLER);
    }
    PEAKGATE_MEMBER T Sum(const T& input, int valid, PEAKGATE_CUB_SITE) {
        return reduce(input, cub::Sum(), valid, site, PEAKGATE_CUB_CALLER);
    }
    template <int N> PEAKGATE_MEMBER T Sum(const T (&input)[N], PEAKGATE_CUB_SITE) {
        return reduce(details::own(input, cub::Sum()), cub::Sum(), X * Y * Z, site, PEAKGATE_CUB_CALLER);
    }

  private:
    template <class Op>
    PEAKGATE_CUB_PLAIN T reduce(const T& input, Op op, int valid, PeakgateCubSite site, const void* caller) {
        all.exchange(input, site, caller);
        if (details::rank_in_block()) return details::undefined<T>();
        T result = all.read(0, caller);
        for (int i = 1; i < valid; ++i) result = op(result, all.read(static_cast<unsigned>(i), caller));
        return result;
    }
    TempStorage& all;
};

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int...> class BlockScan {
  public:
    using TempStorage = details::Slots<T, X * Y * Z>;
    explicit BlockScan(TempStorage& storage) : all(storage) {}
    BlockScan() : all(details::private_storage<TempStorage>()) {}
    template <class Op> PEAKGATE_MEMBER void InclusiveScan(const T& input, T& output, Op op, PEAKGATE_CUB_SITE) {
        T total;
        output = scan(input, total, op, nullptr, site, PEAKGATE_CUB_CALLER);
    }
    template <class Op> PEAKGATE_MEMBER void ExclusiveScan(const T& input, T& output, T initial, Op op, PEAKGATE_CUB_SITE) {
        T total;
        output = scan(input, total, op, &initial, site, PEAKGATE_CUB_CALLER);
    }
    PEAKGATE_MEMBER void InclusiveSum(const T& input, T& output, PEAKGATE_CUB_SITE) {
        T total;
        output = scan(input, total, cub::Sum(), nullptr, site, PEAKGATE_CUB_CALLER);
    }
    PEAKGATE_MEMBER void InclusiveSum(const T& input, T& output, T& total, PEAKGATE_CUB_SITE) {
        output = scan(input, total, cub::Sum(), nullptr, site, PEAKGATE_CUB_CALLER);
    }
    template <int N> PEAKGATE_MEMBER void InclusiveSum(const T (&input)[N], T (&output)[N], PEAKGATE_CUB_SITE) {
        T total;
        T sum = before(input, total, site, PEAKGATE_CUB_CALLER);
        for (int i = 0; i < N; ++i) output[i] = sum = sum + input[i];
    }
    PEAKGATE_MEMBER void ExclusiveSum(const T& input, T& output, PEAKGATE_CUB_SITE) {
        T total;
        const T initial = T();
        output = scan(input, total, cub::Sum(), &initial, site, PEAKGATE_CUB_CALLER);
    }
    PEAKGATE_MEMBER void ExclusiveSum(const T& input, T& output, T& total, PEAKGATE_CUB_SITE) {
        const T initial = T();
        output = scan(input, total, cub::Sum(), &initial, site, PEAKGATE_CUB_CALLER);
    }
    template <int N> PEAKGATE_MEMBER void ExclusiveSum(const T (&input)[N], T (&output)[N], PEAKGATE_CUB_SITE) {
        T total;
        exclusive(input, output, before(input, total, site, PEAKGATE_CUB_CALLER));
    }
    template <int N> PEAKGATE_MEMBER void ExclusiveSum(const T (&input)[N], T (&output)[N], T& total, PEAKGATE_CUB_SITE) {
        exclusive(input, output, before(input, total, site, PEAKGATE_CUB_CALLER));
    }

  private:
    template <class Op>
    PEAKGATE_CUB_PLAIN T scan(const T& input, T& total, Op op, const T* initial, PeakgateCubSite site, const void* caller) {
        const unsigned rank = details::rank_in_block();
        all.exchange(input, site, caller);
        total = all.read(0, caller);
        T result = initial ? *initial : total;
        for (unsigned i = 0; i < X * Y * Z; ++i) {
            const T other = all.read(i, caller);
            if (i) total = op(total, other);
            if (initial ? i < rank : i && i <= rank) result = op(result, other);
        }
        return result;
    }
    template <int N> PEAKGATE_CUB_PLAIN T before(const T (&input)[N], T& total, PeakgateCubSite site, const void* caller) {
        const T initial = T();
        return scan(details::own(input, cub::Sum()), total, cub::Sum(), &initial, site, caller);
    }
    template <int N> PEAKGATE_CUB_PLAIN void exclusive(const T (&input)[N], T (&output)[N], T before) {
        for (int i = 0; i < N; ++i) {
            const T item = input[i];
            output[i] = before;
            before = before + item;
        }
    }
    TempStorage& all;
};

namespace details {

template <int X, int Y, int Z, int N, bool STRIPED> inline int place(int item) {
    const int rank = static_cast<int>(rank_in_block());
    return STRIPED ? rank + item * X * Y * Z : rank * N + item;
}

} // namespace details

template <class T, int X, int N, BlockLoadAlgorithm HOW = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int...> class BlockLoad {
  public:
    struct TempStorage {};
    explicit BlockLoad(TempStorage&) {}
    BlockLoad() {}
    template <class From> PEAKGATE_CUB_INLINE void Load(From from, T (&items)[N], int valid = X * Y * Z * N) {
        for (int i = 0; i < N; ++i) {
            const int at = details::place<X, Y, Z, N, HOW == BLOCK_LOAD_STRIPED>(i);
            if (at < valid) items[i] = from[at];
        }
    }
    template <class From, class Other> PEAKGATE_CUB_INLINE void Load(From from, T (&items)[N], int valid, Other other) {
        for (int i = 0; i < N; ++i) items[i] = other;
        Load(from, items, valid);
    }
};

template <class T, int X, int N, BlockStoreAlgorithm HOW = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int...> class BlockStore {
  public:
    struct TempStorage {};
    explicit BlockStore(TempStorage&) {}
    BlockStore() {}
    template <class To> PEAKGATE_CUB_INLINE void Store(To to, const T (&items)[N], int valid = X * Y * Z * N) {
        for (int i = 0; i < N; ++i) {
            const int at = details::place<X, Y, Z, N, HOW == BLOCK_STORE_STRIPED>(i);
            if (at < valid) to[at] = items[i];
        }
    }
};

} // namespace cub
