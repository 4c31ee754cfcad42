// CUB's sorts and exchanges of a block and of a warp. Included in place of cub/cub.cuh and of the headers of these
// classes. As in cuda_cub.h, reusing a block's storage without a barrier is a race.
#pragma once

#include "cuda_cub.h"

namespace cub {

struct NullType {};

namespace details {

// A key's bits in the order of a radix sort, in which both zeros of floating-point numbers are equal.
template <class K> PEAKGATE_CUB_PLAIN uint64_t radix_of(const K& key) {
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &key, sizeof(K));
    const uint64_t sign = uint64_t{1} << (8 * sizeof(K) - 1);
    const bool floats = static_cast<float>(static_cast<K>(0.5f)) == 0.5f;
    if (floats && bits == sign) bits = 0;
    if (floats && (bits & sign)) return ~bits & (sign | (sign - 1));
    return floats || static_cast<K>(-1) < static_cast<K>(0) ? bits ^ sign : bits;
}

template <class K> struct RadixOrder {
    int begin, end;
    bool descends;
    PEAKGATE_CUB_PLAIN bool operator()(const K& a, const K& b) const {
        const uint64_t mask = end - begin < 64 ? (uint64_t{1} << (end - begin)) - 1 : ~uint64_t{0};
        const uint64_t first = radix_of(a) >> begin & mask, second = radix_of(b) >> begin & mask;
        return descends ? second < first : first < second;
    }
};

template <class V> constexpr bool HAS_VALUES = true;
template <> constexpr bool HAS_VALUES<NullType> = false;

template <class K, class V, int COUNT> struct Items {
    K keys[COUNT];
    V values[HAS_VALUES<V> ? COUNT : 1];

    template <int OTHERS> PEAKGATE_CUB_PLAIN void copy(int to, const Items<K, V, OTHERS>& other, int from) {
        keys[to] = other.keys[from];
        if constexpr (HAS_VALUES<V>) values[to] = other.values[from];
    }
    // Sorts the first items by merging, which keeps the order of equal keys.
    template <class Less> PEAKGATE_CUB_PLAIN void sort(int count, Less less) {
        unsigned short places[2][COUNT];
        unsigned short *from = places[0], *to = places[1];
        for (int i = 0; i < COUNT; ++i) from[i] = to[i] = static_cast<unsigned short>(i);
        for (int width = 1; width < count; width *= 2) {
            for (int begin = 0; begin < count; begin += 2 * width) {
                const int middle = begin + width < count ? begin + width : count;
                const int end = middle + width < count ? middle + width : count;
                for (int i = begin, j = middle, at = begin; at < end; ++at)
                    to[at] = i < middle && (j == end || !less(keys[from[j]], keys[from[i]])) ? from[i++] : from[j++];
            }
            unsigned short* const sorted = to;
            to = from;
            from = sorted;
        }
        for (int begin = 0; begin < count; ++begin) { // along each cycle of the permutation
            Items<K, V, 1> first;
            first.copy(0, *this, begin);
            for (int at = begin; from[at] != at;) {
                const int next = from[at];
                from[at] = static_cast<unsigned short>(at);
                if (next == begin) {
                    copy(at, first, 0);
                } else {
                    copy(at, *this, next);
                    at = next;
                }
            }
        }
    }
};

// The items of a block in its storage. Every thread reads all of it last, so that each reuse without a barrier is a race.
template <class K, class V, int THREADS, int N> struct BlockItems {
    static constexpr int COUNT = THREADS * N;
    Items<K, V, COUNT> all;

    template <class Less>
    PEAKGATE_CUB_PLAIN void sort(K (&keys)[N], V* values, int valid, Less less, bool striped, PeakgateCubSite site, const void* caller) {
        const int rank = static_cast<int>(rank_in_block());
        peakgate_access(&all.keys[rank * N], sizeof keys, 1, caller);
        if (values) peakgate_access(&all.values[rank * N], sizeof(V) * N, 1, caller);
        for (int i = 0; i < N; ++i) {
            all.keys[rank * N + i] = keys[i];
            if (values) all.values[rank * N + i] = values[i];
        }
        peakgate_barrier_from(PEAKGATE_BARRIER_PLAIN, 0, site.line, caller);
        if (!rank) {
            peakgate_access(&all, sizeof all, 1, caller);
            all.sort(valid, less);
        }
        peakgate_barrier_from(PEAKGATE_BARRIER_PLAIN, 0, site.line, caller);
        peakgate_access(&all, sizeof all, 0, caller);
        for (int i = 0; i < N; ++i) {
            const int at = striped ? i * THREADS + rank : rank * N + i;
            keys[i] = all.keys[at];
            if (values) values[i] = all.values[at];
        }
    }
};

} // namespace details

template <class K, int X, int N, class V = NullType, int RADIX_BITS = 4, bool MEMOIZES = true,
          BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS, int = 0, int Y = 1, int Z = 1, int...>
class BlockRadixSort {
  public:
    using TempStorage = details::BlockItems<K, V, X * Y * Z, N>;
    explicit BlockRadixSort(TempStorage& storage) : all(storage) {}
    BlockRadixSort() : all(details::private_storage<TempStorage>()) {}
#define PEAKGATE_SORTS(name, descends, striped)                                                                        \
    PEAKGATE_MEMBER void name(K (&keys)[N], int begin = 0, int end = 8 * sizeof(K), PEAKGATE_CUB_SITE) {                \
        all.sort(keys, nullptr, X * Y * Z * N, details::RadixOrder<K>{begin, end, descends}, striped, site, PEAKGATE_CUB_CALLER); \
    }                                                                                                                  \
    PEAKGATE_MEMBER void name(K (&keys)[N], V (&values)[N], int begin = 0, int end = 8 * sizeof(K), PEAKGATE_CUB_SITE) { \
        all.sort(keys, values, X * Y * Z * N, details::RadixOrder<K>{begin, end, descends}, striped, site, PEAKGATE_CUB_CALLER); \
    }
    PEAKGATE_SORTS(Sort, false, false)
    PEAKGATE_SORTS(SortDescending, true, false)
    PEAKGATE_SORTS(SortBlockedToStriped, false, true)
    PEAKGATE_SORTS(SortDescendingBlockedToStriped, true, true)
#undef PEAKGATE_SORTS

  private:
    TempStorage& all;
};

template <class K, int X, int N, class V = NullType, int Y = 1, int Z = 1> class BlockMergeSort {
  public:
    using TempStorage = details::BlockItems<K, V, X * Y * Z, N>;
    explicit BlockMergeSort(TempStorage& storage) : all(storage) {}
    BlockMergeSort() : all(details::private_storage<TempStorage>()) {}
#define PEAKGATE_SORTS(name)                                                                                           \
    template <class Less> PEAKGATE_MEMBER void name(K (&keys)[N], Less less, PEAKGATE_CUB_SITE) {                      \
        all.sort(keys, nullptr, X * Y * Z * N, less, false, site, PEAKGATE_CUB_CALLER);                                \
    }                                                                                                                  \
    template <class Less> PEAKGATE_MEMBER void name(K (&keys)[N], Less less, int valid, K other, PEAKGATE_CUB_SITE) {  \
        beyond(keys, valid, other);                                                                                    \
        all.sort(keys, nullptr, X * Y * Z * N, less, false, site, PEAKGATE_CUB_CALLER);                                \
    }                                                                                                                  \
    template <class Less> PEAKGATE_MEMBER void name(K (&keys)[N], V (&values)[N], Less less, PEAKGATE_CUB_SITE) {      \
        all.sort(keys, values, X * Y * Z * N, less, false, site, PEAKGATE_CUB_CALLER);                                 \
    }                                                                                                                  \
    template <class Less>                                                                                              \
    PEAKGATE_MEMBER void name(K (&keys)[N], V (&values)[N], Less less, int valid, K other, PEAKGATE_CUB_SITE) {        \
        beyond(keys, valid, other);                                                                                    \
        all.sort(keys, values, X * Y * Z * N, less, false, site, PEAKGATE_CUB_CALLER);                                 \
    }
    PEAKGATE_SORTS(Sort)
    PEAKGATE_SORTS(StableSort)
#undef PEAKGATE_SORTS

  private:
    static PEAKGATE_CUB_PLAIN void beyond(K (&keys)[N], int valid, K other) {
        for (int i = 0; i < N; ++i) {
            if (static_cast<int>(details::rank_in_block()) * N + i >= valid) keys[i] = other;
        }
    }
    TempStorage& all;
};

template <class K, int N, int SIZE = 32, class V = NullType> class WarpMergeSort {
  public:
    struct TempStorage {};
    explicit WarpMergeSort(TempStorage&) {}
    template <class Less> PEAKGATE_MEMBER void Sort(K (&keys)[N], Less less) { sort(keys, nullptr, less, PEAKGATE_CUB_CALLER); }
    template <class Less> PEAKGATE_MEMBER void Sort(K (&keys)[N], V (&values)[N], Less less) {
        sort(keys, values, less, PEAKGATE_CUB_CALLER);
    }
    template <class Less> PEAKGATE_MEMBER void StableSort(K (&keys)[N], Less less) { sort(keys, nullptr, less, PEAKGATE_CUB_CALLER); }
    template <class Less> PEAKGATE_MEMBER void StableSort(K (&keys)[N], V (&values)[N], Less less) {
        sort(keys, values, less, PEAKGATE_CUB_CALLER);
    }

  private:
    template <class Less> PEAKGATE_CUB_PLAIN void sort(K (&keys)[N], V* values, Less less, const void* caller) {
        details::Items<K, V, N> own, lanes[32];
        for (int i = 0; i < N; ++i) {
            own.keys[i] = keys[i];
            if (values) own.values[i] = values[i];
        }
        const unsigned mask = details::warp_mask(SIZE);
        details::gather(mask, own, lanes, caller);
        const int first = static_cast<int>(details::lane()) / SIZE * SIZE, there = __popc(mask);
        details::Items<K, V, SIZE * N> all;
        for (int i = 0; i < there * N; ++i) all.copy(i, lanes[first + i / N], i % N);
        all.sort(there * N, less);
        for (int i = 0; i < N; ++i) {
            const int at = (static_cast<int>(details::lane()) - first) * N + i;
            keys[i] = all.keys[at];
            if (values) values[i] = all.values[at];
        }
    }
};

template <class T, int X, int N, bool = false, int Y = 1, int Z = 1, int...> class BlockExchange {
    static constexpr int THREADS = X * Y * Z;

  public:
    struct TempStorage { T items[THREADS * N]; };
    explicit BlockExchange(TempStorage& storage) : all(storage.items) {}
    BlockExchange() : all(details::private_storage<TempStorage>().items) {}
#define PEAKGATE_EXCHANGES(name, writes_at, reads_at)                                                                  \
    template <class O> PEAKGATE_MEMBER void name(const T (&in)[N], O (&out)[N], PEAKGATE_CUB_SITE) {                   \
        exchange(in, out, [](int i) { return writes_at; }, [](int i) { return reads_at; }, site, PEAKGATE_CUB_CALLER); \
    }                                                                                                                  \
    PEAKGATE_MEMBER void name(T (&items)[N], PEAKGATE_CUB_SITE) {                                                      \
        exchange(items, items, [](int i) { return writes_at; }, [](int i) { return reads_at; }, site, PEAKGATE_CUB_CALLER); \
    }
    PEAKGATE_EXCHANGES(StripedToBlocked, striped(i), blocked(i))
    PEAKGATE_EXCHANGES(BlockedToStriped, blocked(i), striped(i))
    PEAKGATE_EXCHANGES(WarpStripedToBlocked, warp_striped(i), blocked(i))
    PEAKGATE_EXCHANGES(BlockedToWarpStriped, blocked(i), warp_striped(i))
#undef PEAKGATE_EXCHANGES
    template <class O, class R> PEAKGATE_MEMBER void ScatterToBlocked(const T (&in)[N], O (&out)[N], R (&ranks)[N], PEAKGATE_CUB_SITE) {
        exchange(in, out, [&](int i) { return static_cast<int>(ranks[i]); }, [](int i) { return blocked(i); }, site, PEAKGATE_CUB_CALLER);
    }
    template <class R> PEAKGATE_MEMBER void ScatterToBlocked(T (&items)[N], R (&ranks)[N], PEAKGATE_CUB_SITE) {
        exchange(items, items, [&](int i) { return static_cast<int>(ranks[i]); }, [](int i) { return blocked(i); }, site, PEAKGATE_CUB_CALLER);
    }
    template <class O, class R> PEAKGATE_MEMBER void ScatterToStriped(const T (&in)[N], O (&out)[N], R (&ranks)[N], PEAKGATE_CUB_SITE) {
        exchange(in, out, [&](int i) { return static_cast<int>(ranks[i]); }, [](int i) { return striped(i); }, site, PEAKGATE_CUB_CALLER);
    }
    template <class R> PEAKGATE_MEMBER void ScatterToStriped(T (&items)[N], R (&ranks)[N], PEAKGATE_CUB_SITE) {
        exchange(items, items, [&](int i) { return static_cast<int>(ranks[i]); }, [](int i) { return striped(i); }, site, PEAKGATE_CUB_CALLER);
    }

  private:
    static int rank() { return static_cast<int>(details::rank_in_block()); }
    static int blocked(int item) { return rank() * N + item; }
    static int striped(int item) { return item * THREADS + rank(); }
    static int warp_striped(int item) { return rank() / 32 * 32 * N + item * 32 + rank() % 32; }
    template <class O, class W, class R>
    PEAKGATE_CUB_PLAIN void exchange(const T (&in)[N], O (&out)[N], W writes_at, R reads_at, PeakgateCubSite site, const void* caller) {
        for (int i = 0; i < N; ++i) {
            peakgate_access(&all[writes_at(i)], sizeof(T), 1, caller);
            all[writes_at(i)] = in[i];
        }
        peakgate_barrier_from(PEAKGATE_BARRIER_PLAIN, 0, site.line, caller);
        for (int i = 0; i < N; ++i) {
            peakgate_access(&all[reads_at(i)], sizeof(T), 0, caller);
            out[i] = static_cast<O>(all[reads_at(i)]);
        }
    }
    T* all;
};

// ---- loads and stores without storage ----
template <class From, class T, int N> PEAKGATE_CUB_INLINE inline void LoadDirectBlocked(int thread, From from, T (&items)[N], int valid = 1 << 30) {
    for (int i = 0; i < N; ++i)
        if (thread * N + i < valid) items[i] = from[thread * N + i];
}
template <class From, class T, int N, class Other>
PEAKGATE_CUB_INLINE inline void LoadDirectBlocked(int thread, From from, T (&items)[N], int valid, Other other) {
    for (int i = 0; i < N; ++i) items[i] = other;
    LoadDirectBlocked(thread, from, items, valid);
}
template <int THREADS, class From, class T, int N>
PEAKGATE_CUB_INLINE inline void LoadDirectStriped(int thread, From from, T (&items)[N], int valid = 1 << 30) {
    for (int i = 0; i < N; ++i)
        if (i * THREADS + thread < valid) items[i] = from[i * THREADS + thread];
}
template <int THREADS, class From, class T, int N, class Other>
PEAKGATE_CUB_INLINE inline void LoadDirectStriped(int thread, From from, T (&items)[N], int valid, Other other) {
    for (int i = 0; i < N; ++i) items[i] = other;
    LoadDirectStriped<THREADS>(thread, from, items, valid);
}
template <class To, class T, int N> PEAKGATE_CUB_INLINE inline void StoreDirectBlocked(int thread, To to, const T (&items)[N], int valid = 1 << 30) {
    for (int i = 0; i < N; ++i)
        if (thread * N + i < valid) to[thread * N + i] = items[i];
}
template <int THREADS, class To, class T, int N>
PEAKGATE_CUB_INLINE inline void StoreDirectStriped(int thread, To to, const T (&items)[N], int valid = 1 << 30) {
    for (int i = 0; i < N; ++i)
        if (i * THREADS + thread < valid) to[i * THREADS + thread] = items[i];
}

} // namespace cub
