// Cooperative groups, on top of the barriers and warp primitives of cuda_cpu.h. Included in place of
// cooperative_groups.h, cooperative_groups/reduce.h, scan.h and memcpy_async.h.
//
// Members that call the runtime are not inlined and pass on their return address, which gives the kernel's line;
// barriers are distinguished by the line of the call.
#pragma once

#define PEAKGATE_MEMBER __attribute__((noinline, no_sanitize("thread")))
#define PEAKGATE_SITE int site = 10000000 + __builtin_LINE() // beside those of __syncthreads, which count

namespace cooperative_groups {

namespace details {

inline unsigned rank_in_block() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
inline unsigned block_threads() { return blockDim.x * blockDim.y * blockDim.z; }
inline unsigned lane() { return rank_in_block() % warpSize; }
inline unsigned below(unsigned mask, unsigned lane) { return static_cast<unsigned>(__popc(mask & ((1u << lane) - 1))); }
inline unsigned lanes(unsigned size, unsigned first) { return (size == 32 ? ~0u : (1u << size) - 1) << first; }
// The lane of a mask with the given rank.
inline unsigned nth(unsigned mask, unsigned rank) {
    for (; rank && mask; --rank) mask &= mask - 1;
    return mask ? static_cast<unsigned>(__builtin_ctz(mask)) : 32;
}
inline unsigned ballot(unsigned mask, int predicate, const void* caller) {
    return peakgate_ballot(mask, predicate, caller);
}
inline void meet(unsigned mask, const void* caller) {
    const PeakgateWarpCall call = {PEAKGATE_WARP_SYNC, mask, nullptr, nullptr, 0, 0, warpSize};
    peakgate_warp(&call, caller);
}
// Values of any size, from every lane of the mask.
template <class T> __attribute__((no_sanitize("thread"))) unsigned gather(unsigned mask, const T& value, T* all, const void* caller) {
    unsigned met = 0;
    for (unsigned done = 0; done < sizeof(T); done += 8) {
        const int size = sizeof(T) - done < 8 ? static_cast<int>(sizeof(T) - done) : 8;
        char part[warpSize * 8]; // by lane, `size` bytes each
        const PeakgateWarpCall call = {PEAKGATE_WARP_GROUP, mask, reinterpret_cast<const char*>(&value) + done,
                                       part, size, 0, warpSize};
        met = peakgate_warp(&call, caller);
        for (int from = 0; from < warpSize; ++from)
            __builtin_memcpy(reinterpret_cast<char*>(all + from) + done, part + from * size, static_cast<size_t>(size));
    }
    return met;
}

} // namespace details

struct thread_block {
    using index = dim3;
    PEAKGATE_MEMBER void sync_from(int site, const void* caller) const {
        peakgate_barrier_from(PEAKGATE_BARRIER_PLAIN, 0, site, caller);
    }
    PEAKGATE_MEMBER void sync(PEAKGATE_SITE) const { sync_from(site, __builtin_return_address(0)); }
    struct arrival_token {};
    static arrival_token barrier_arrive() { return {}; } // as in NVIDIA's header
    PEAKGATE_MEMBER void barrier_wait(arrival_token&&, PEAKGATE_SITE) const { sync_from(site, __builtin_return_address(0)); }
    static unsigned thread_rank() { return details::rank_in_block(); }
    static unsigned size() { return details::block_threads(); }
    static unsigned num_threads() { return size(); }
    static dim3 thread_index() { return dim3(threadIdx); }
    static dim3 group_index() { return dim3(blockIdx); }
    static dim3 group_dim() { return dim3(blockDim); }
    static dim3 dim_threads() { return dim3(blockDim); }
};
inline thread_block this_thread_block() { return {}; }

struct grid_group {
    using arrival_token = unsigned;
    PEAKGATE_MEMBER void sync() const { peakgate_grid_barrier(__builtin_return_address(0)); }
    static arrival_token barrier_arrive() { return 0; } // at the wait
    PEAKGATE_MEMBER void barrier_wait(arrival_token&&) const { peakgate_grid_barrier(__builtin_return_address(0)); }
    static bool is_valid() { return peakgate_is_cooperative(); }
    static unsigned long long block_rank() {
        return blockIdx.x + gridDim.x * (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z);
    }
    static unsigned long long num_blocks() { return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z; }
    static unsigned long long thread_rank() { return block_rank() * details::block_threads() + details::rank_in_block(); }
    static unsigned long long size() { return num_blocks() * details::block_threads(); }
    static unsigned long long num_threads() { return size(); }
    static dim3 group_dim() { return dim3(gridDim); }
    static dim3 dim_blocks() { return dim3(gridDim); }
    static dim3 block_index() { return dim3(blockIdx); }
};
inline grid_group this_grid() { return {}; }

// The blocks of a cluster.
struct cluster_group {
    using arrival_token = struct {};
    PEAKGATE_MEMBER void sync(PEAKGATE_SITE) const {
        peakgate_cluster_arrive(1, __builtin_return_address(0));
        peakgate_cluster_wait(site, __builtin_return_address(0));
    }
    PEAKGATE_MEMBER arrival_token barrier_arrive() const {
        peakgate_cluster_arrive(1, __builtin_return_address(0));
        return {};
    }
    PEAKGATE_MEMBER void barrier_wait(PEAKGATE_SITE) const { peakgate_cluster_wait(site, __builtin_return_address(0)); }
    PEAKGATE_MEMBER void barrier_wait(arrival_token&&, PEAKGATE_SITE) const {
        peakgate_cluster_wait(site, __builtin_return_address(0));
    }
    static dim3 dim_blocks() { return dim3(peakgate_cluster_size_x, peakgate_cluster_size_y, peakgate_cluster_size_z); }
    static unsigned num_blocks() { return peakgate_cluster_size_x * peakgate_cluster_size_y * peakgate_cluster_size_z; }
    static dim3 block_index() {
        return dim3(blockIdx.x % peakgate_cluster_size_x, blockIdx.y % peakgate_cluster_size_y, blockIdx.z % peakgate_cluster_size_z);
    }
    static unsigned block_rank() { return peakgate_cluster_rank(); }
    static dim3 dim_threads() {
        return dim3(blockDim.x * peakgate_cluster_size_x, blockDim.y * peakgate_cluster_size_y, blockDim.z * peakgate_cluster_size_z);
    }
    static unsigned num_threads() { return num_blocks() * details::block_threads(); }
    static unsigned size() { return num_threads(); }
    static unsigned thread_rank() { return block_rank() * details::block_threads() + details::rank_in_block(); }
    template <class T> PEAKGATE_MEMBER T* map_shared_rank(T* pointer, int rank) const {
        return static_cast<T*>(peakgate_map_shared(pointer, static_cast<unsigned>(rank), __builtin_return_address(0)));
    }
    static unsigned query_shared_rank(const void* pointer) {
        return peakgate_ptx::rank_of(peakgate_ptx::shared_offset(reinterpret_cast<uint64_t>(pointer)));
    }
};
inline cluster_group this_cluster() { return {}; }

// Some lanes of a warp: the base of tiles, coalesced groups and thread groups.
struct lane_group {
    unsigned mask = 0;
    unsigned thread_rank() const { return details::below(mask, details::lane()); }
    unsigned size() const { return static_cast<unsigned>(__popc(mask)); }
    unsigned num_threads() const { return size(); }
    PEAKGATE_MEMBER void sync() const { details::meet(mask, __builtin_return_address(0)); }

    // The value of the lane with rank `choose(rank)`, or the own value if the group has no such lane.
    template <class T, class F> __attribute__((no_sanitize("thread"))) T exchanged(const T& value, F choose, const void* caller) const {
        T all[warpSize];
        const unsigned met = details::gather(mask, value, all, caller);
        const unsigned from = details::nth(mask, choose(thread_rank()));
        if (from >= 32) return value;
        if (!(met >> from & 1)) __builtin_memset(static_cast<void*>(&all[from]), 0xfb, sizeof(T)); // as UNSET of arguments.py
        return all[from];
    }
    template <class T> PEAKGATE_MEMBER T shfl(const T& value, int rank) const {
        const unsigned count = size();
        return exchanged(value, [=](unsigned) { return static_cast<unsigned>(rank) % count; }, __builtin_return_address(0));
    }
    template <class T> PEAKGATE_MEMBER T shfl_up(const T& value, unsigned distance) const {
        return exchanged(value, [=](unsigned own) { return own < distance ? own : own - distance; }, __builtin_return_address(0));
    }
    template <class T> PEAKGATE_MEMBER T shfl_down(const T& value, unsigned distance) const {
        return exchanged(value, [=](unsigned own) { return own + distance; }, __builtin_return_address(0));
    }
    template <class T> PEAKGATE_MEMBER T shfl_xor(const T& value, unsigned bits) const {
        return exchanged(value, [=](unsigned own) { return own ^ bits; }, __builtin_return_address(0));
    }
    PEAKGATE_MEMBER int any(int predicate) const { return details::ballot(mask, predicate, __builtin_return_address(0)) != 0; }
    PEAKGATE_MEMBER int all(int predicate) const { return details::ballot(mask, !predicate, __builtin_return_address(0)) == 0; }
    PEAKGATE_MEMBER unsigned ballot(int predicate) const {
        return packed(details::ballot(mask, predicate, __builtin_return_address(0)));
    }
    template <class T> PEAKGATE_MEMBER unsigned match_any(T value) const {
        return packed(peakgate_match(mask, value, __builtin_return_address(0)));
    }
    template <class T> PEAKGATE_MEMBER unsigned match_all(T value, int& same) const {
        const unsigned equal = peakgate_match(mask, value, __builtin_return_address(0));
        same = peakgate_ballot(mask, equal != mask, __builtin_return_address(0)) == 0;
        return same ? packed(mask) : 0;
    }
    // One bit for each thread of the group, by rank.
    unsigned packed(unsigned by_lane) const {
        unsigned by_rank = 0;
        for (unsigned rank = 0, left = mask; left; ++rank, left &= left - 1)
            by_rank |= (by_lane >> __builtin_ctz(left) & 1u) << rank;
        return by_rank;
    }
};

struct coalesced_group : lane_group {
    static unsigned meta_group_rank() { return 0; }
    static unsigned meta_group_size() { return 1; }
};
PEAKGATE_MEMBER inline coalesced_group coalesced_threads(PEAKGATE_SITE) {
    coalesced_group group;
    group.mask = peakgate_converge(site, __builtin_return_address(0));
    return group;
}

template <unsigned N, class Parent = void> struct thread_block_tile : lane_group {
    static_assert(N && N <= 32 && (N & (N - 1)) == 0, "tiles of 1, 2, 4, 8, 16 or 32 threads are emulated");
    unsigned rank_in_parent = 0, tiles_in_parent = 1;
    thread_block_tile() = default;
    template <class P>
    thread_block_tile(const thread_block_tile<N, P>& other)
        : lane_group(other), rank_in_parent(other.rank_in_parent), tiles_in_parent(other.tiles_in_parent) {}
    static unsigned thread_rank() { return details::rank_in_block() % N; }
    static constexpr unsigned size() { return N; }
    static constexpr unsigned num_threads() { return N; }
    unsigned meta_group_rank() const { return rank_in_parent; }
    unsigned meta_group_size() const { return tiles_in_parent; }
};

// A group whose kind is known only at run time: a whole block, or some lanes of a warp.
struct thread_group : lane_group {
    bool is_block = false;
    thread_group() = default;
    thread_group(const thread_block&) : is_block(true) {}
    thread_group(const lane_group& lanes) : lane_group(lanes) {}
    unsigned thread_rank() const { return is_block ? details::rank_in_block() : lane_group::thread_rank(); }
    unsigned size() const { return is_block ? details::block_threads() : lane_group::size(); }
    unsigned num_threads() const { return size(); }
    PEAKGATE_MEMBER void sync_from(int site, const void* caller) const {
        if (is_block)
            peakgate_barrier_from(PEAKGATE_BARRIER_PLAIN, 0, site, caller);
        else
            details::meet(mask, caller);
    }
    PEAKGATE_MEMBER void sync(PEAKGATE_SITE) const { sync_from(site, __builtin_return_address(0)); }
};

// ---- partitions ----
template <unsigned N> inline thread_block_tile<N, thread_block> tiled_partition(const thread_block&) {
    thread_block_tile<N, thread_block> tile;
    tile.mask = details::lanes(N, details::lane() / N * N);
    tile.rank_in_parent = details::rank_in_block() / N;
    tile.tiles_in_parent = (details::block_threads() + N - 1) / N;
    return tile;
}
template <unsigned N, unsigned M, class P>
inline thread_block_tile<N, thread_block_tile<M, P>> tiled_partition(const thread_block_tile<M, P>& parent) {
    static_assert(N <= M, "a tile is no larger than what it is a part of");
    thread_block_tile<N, thread_block_tile<M, P>> tile;
    tile.mask = details::lanes(N, details::lane() / N * N);
    tile.rank_in_parent = parent.thread_rank() / N;
    tile.tiles_in_parent = M / N;
    return tile;
}
inline thread_group tiled_partition(const thread_group& parent, unsigned size) {
    thread_group tile;
    if (parent.is_block) {
        tile.mask = details::lanes(size, details::lane() / size * size);
    } else { // groups of this many threads of the parent, by rank
        const unsigned first = parent.thread_rank() / size * size;
        for (unsigned rank = first; rank < first + size && rank < parent.size(); ++rank)
            tile.mask |= 1u << details::nth(parent.mask, rank);
    }
    return tile;
}
template <class G> PEAKGATE_MEMBER coalesced_group binary_partition(const G& parent, bool predicate) {
    const unsigned true_ones = details::ballot(parent.mask, predicate, __builtin_return_address(0));
    coalesced_group group;
    group.mask = predicate ? true_ones : parent.mask & ~true_ones;
    return group;
}
template <class G, class L> PEAKGATE_MEMBER coalesced_group labeled_partition(const G& parent, L label) {
    coalesced_group group;
    group.mask = peakgate_match(parent.mask, label, __builtin_return_address(0));
    return group;
}

namespace details {
inline void meet(const thread_block& group, int site, const void* caller) { group.sync_from(site, caller); }
inline void meet(const thread_group& group, int site, const void* caller) { group.sync_from(site, caller); }
inline void meet(const lane_group& group, int, const void* caller) { meet(group.mask, caller); }
inline void meet(const grid_group&, int, const void* caller) { peakgate_grid_barrier(caller); }
inline void meet(const cluster_group&, int site, const void* caller) {
    peakgate_cluster_arrive(1, caller);
    peakgate_cluster_wait(site, caller);
}
} // namespace details

template <class G> PEAKGATE_MEMBER void sync(const G& group, PEAKGATE_SITE) {
    details::meet(group, site, __builtin_return_address(0));
}
template <class G> inline unsigned thread_rank(const G& group) { return group.thread_rank(); }
template <class G> inline unsigned group_size(const G& group) { return group.size(); }

// ---- reductions and scans ----
template <class T> struct plus {
    T operator()(T a, T b) const { return a + b; }
};
template <class T> struct less {
    T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T> struct greater {
    T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T> struct bit_and {
    T operator()(T a, T b) const { return a & b; }
};
template <class T> struct bit_or {
    T operator()(T a, T b) const { return a | b; }
};
template <class T> struct bit_xor {
    T operator()(T a, T b) const { return a ^ b; }
};

// A reduction combines values in tree order; every thread gets the result.
template <class G, class T, class F> PEAKGATE_MEMBER T reduce(const G& group, T value, F&& f) {
    T all[warpSize], ranked[warpSize];
    const unsigned met = details::gather(group.mask, value, all, __builtin_return_address(0));
    if (group.mask & ~met) peakgate_absent(group.mask & ~met, __builtin_return_address(0));
    unsigned count = 0;
    for (unsigned left = met & group.mask; left; left &= left - 1) ranked[count++] = all[__builtin_ctz(left)];
    for (unsigned step = 1; step < count; step *= 2) {
        for (unsigned at = 0; at + step < count; at += 2 * step) ranked[at] = f(ranked[at], ranked[at + step]);
    }
    return ranked[0];
}
template <class G, class T, class F> PEAKGATE_MEMBER T inclusive_scan(const G& group, T value, F&& f) {
    T all[warpSize];
    const unsigned met = details::gather(group.mask, value, all, __builtin_return_address(0));
    if (group.mask & ~met) peakgate_absent(group.mask & ~met, __builtin_return_address(0));
    unsigned left = met & group.mask & (~0u >> (31 - details::lane()));
    T sum = all[__builtin_ctz(left)];
    for (left &= left - 1; left; left &= left - 1) sum = f(sum, all[__builtin_ctz(left)]);
    return sum;
}
// The first thread's result is T(), as in CUDA for a sum; for other operations CUDA does not define it.
template <class G, class T, class F> PEAKGATE_MEMBER T exclusive_scan(const G& group, T value, F&& f) {
    T all[warpSize];
    const unsigned met = details::gather(group.mask, value, all, __builtin_return_address(0));
    if (group.mask & ~met) peakgate_absent(group.mask & ~met, __builtin_return_address(0));
    unsigned left = met & group.mask & ((1u << details::lane()) - 1);
    if (!left) return T();
    T sum = all[__builtin_ctz(left)];
    for (left &= left - 1; left; left &= left - 1) sum = f(sum, all[__builtin_ctz(left)]);
    return sum;
}
template <class G, class T> inline T inclusive_scan(const G& group, T value) { return inclusive_scan(group, value, plus<T>()); }
template <class G, class T> inline T exclusive_scan(const G& group, T value) { return exclusive_scan(group, value, plus<T>()); }

// ---- one thread for all ----
template <class G, class F, class... A> inline void invoke_one(const G& group, F&& function, A&&... arguments) {
    if (group.thread_rank() == 0) function(static_cast<A&&>(arguments)...);
}
template <class G, class F, class... A> inline auto invoke_one_broadcast(const G& group, F&& function, A&&... arguments) {
    auto result = decltype(function(static_cast<A&&>(arguments)...)){};
    if (group.thread_rank() == 0) result = function(static_cast<A&&>(arguments)...);
    return group.shfl(result, 0);
}

// ---- asynchronous copies: performed at the wait, like those of the pipeline primitives ----
namespace details {
// Each thread of the group starts its share, in words if possible.
template <class G> inline void copy_async(const G& group, void* destination, const void* source, size_t bytes) {
    const bool words = (reinterpret_cast<size_t>(destination) | reinterpret_cast<size_t>(source) | bytes) % 4 == 0;
    char* to = static_cast<char*>(destination);
    const char* from = static_cast<const char*>(source);
    for (size_t at = group.thread_rank() * (words ? 4 : 1); at < bytes; at += group.size() * (words ? 4 : 1)) {
        if (words)
            peakgate_async_copy(to + at, from + at, 4, 4);
        else
            to[at] = from[at];
    }
}
} // namespace details
template <class G, class T, class S> inline void memcpy_async(const G& group, T* destination, const S* source, size_t bytes) {
    details::copy_async(group, destination, source, bytes);
    peakgate_async_commit();
}
template <class G> PEAKGATE_MEMBER void wait(const G& group, PEAKGATE_SITE) {
    peakgate_async_wait(0);
    details::meet(group, site, __builtin_return_address(0));
}
template <unsigned left, class G> PEAKGATE_MEMBER void wait_prior(const G& group, PEAKGATE_SITE) {
    peakgate_async_wait(left);
    details::meet(group, site, __builtin_return_address(0));
}

} // namespace cooperative_groups
