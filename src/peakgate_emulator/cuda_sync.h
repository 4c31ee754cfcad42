// libcu++'s barriers, pipelines and atomics, on top of the runtime's. Included in place of cuda/barrier, cuda/pipeline and
// cuda/atomic.
#pragma once

#include "cuda_groups.h"

#define PEAKGATE_UNCHECKED __attribute__((no_sanitize("thread")))
// Of a function object that gives an atomic's new value: an access that is checked would come before the write.
#define PEAKGATE_NEXT __attribute__((always_inline, no_sanitize("thread")))

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

namespace std {
enum memory_order {
    memory_order_relaxed, memory_order_consume, memory_order_acquire, memory_order_release, memory_order_acq_rel,
    memory_order_seq_cst
};
} // namespace std
using namespace std;

template <size_t N> struct aligned_size_t {
    size_t value;
    explicit constexpr aligned_size_t(size_t size) : value(size) {}
    constexpr operator size_t() const { return value; }
};

// ---- atomics ----
// Plain reads and writes suffice, since no other thread runs in between; the runtime tracks what they order.
namespace details {
constexpr int order_of(memory_order order) {
    return order == memory_order_relaxed ? PEAKGATE_RELAXED
           : order <= memory_order_acquire ? PEAKGATE_ACQUIRE
           : order == memory_order_release ? PEAKGATE_RELEASE
                                           : PEAKGATE_ACQ_REL;
}
constexpr int scope_of(thread_scope scope) {
    return scope == thread_scope_thread ? PEAKGATE_THREAD
           : scope == thread_scope_block ? PEAKGATE_BLOCK
                                         : PEAKGATE_DEVICE;
}
} // namespace details

template <class T, thread_scope S = thread_scope_system> struct atomic_ref {
    T* at;
    explicit atomic_ref(T& value) : at(&value) {}

    PEAKGATE_UNCHECKED T loaded(memory_order order, const void* caller) const {
        peakgate_strong(at, sizeof(T), PEAKGATE_LOAD, details::order_of(order), details::scope_of(S), nullptr, caller);
        return *at;
    }
    template <class F>
    PEAKGATE_UNCHECKED T updated(F next, memory_order order, const void* caller, int what = PEAKGATE_UPDATE) const {
        peakgate_strong(at, sizeof(T), what, details::order_of(order), details::scope_of(S), nullptr, caller);
        const T old = *at;
        *at = next(old);
        return old;
    }
    PEAKGATE_MEMBER T load(memory_order order = memory_order_seq_cst) const {
        return loaded(order, __builtin_return_address(0));
    }
    PEAKGATE_MEMBER void store(T value, memory_order order = memory_order_seq_cst) const {
        peakgate_strong(at, sizeof(T), PEAKGATE_STORE, details::order_of(order) & PEAKGATE_RELEASE, details::scope_of(S),
                        nullptr, __builtin_return_address(0));
        *at = value;
    }
    PEAKGATE_MEMBER T exchange(T value, memory_order order = memory_order_seq_cst) const {
        return updated([=](T) PEAKGATE_NEXT { return value; }, order, __builtin_return_address(0), PEAKGATE_EXCHANGE);
    }
    PEAKGATE_MEMBER bool compare_exchange_strong(T& expected, T value, memory_order order = memory_order_seq_cst,
                                                 memory_order = memory_order_seq_cst) const {
        const T wanted = expected;
        expected = peakgate_atomicCAS_from(at, wanted, value, details::order_of(order), details::scope_of(S),
                                           __builtin_return_address(0));
        return __builtin_memcmp(&expected, &wanted, sizeof(T)) == 0;
    }
    bool compare_exchange_weak(T& expected, T value, memory_order order = memory_order_seq_cst,
                               memory_order = memory_order_seq_cst) const {
        return compare_exchange_strong(expected, value, order);
    }
#define PEAKGATE_FETCH(name, ...)                                                                                      \
    PEAKGATE_MEMBER T name(T operand, memory_order order = memory_order_seq_cst) const {                               \
        return updated([=](T old) PEAKGATE_NEXT { return static_cast<T>(__VA_ARGS__); }, order, __builtin_return_address(0));        \
    }
    PEAKGATE_FETCH(fetch_add, old + operand)
    PEAKGATE_FETCH(fetch_sub, old - operand)
    PEAKGATE_FETCH(fetch_and, old& operand)
    PEAKGATE_FETCH(fetch_or, old | operand)
    PEAKGATE_FETCH(fetch_xor, old ^ operand)
    PEAKGATE_FETCH(fetch_min, operand < old ? operand : old)
    PEAKGATE_FETCH(fetch_max, old < operand ? operand : old)
#undef PEAKGATE_FETCH
    PEAKGATE_MEMBER void wait(T old, memory_order order = memory_order_seq_cst) const {
        while (loaded(order, __builtin_return_address(0)) == old) {
        }
    }
    void notify_one() const {}
    void notify_all() const {}
    T operator++() const { return fetch_add(1) + 1; }
    T operator++(int) const { return fetch_add(1); }
    T operator--() const { return fetch_sub(1) - 1; }
    T operator--(int) const { return fetch_sub(1); }
    T operator+=(T value) const { return fetch_add(value) + value; }
    T operator-=(T value) const { return fetch_sub(value) - value; }
    T operator=(T value) const { return store(value), value; }
    operator T() const { return load(); }
};

// Not initialised in shared memory, as on a GPU.
template <class T, thread_scope S = thread_scope_system> struct atomic {
    T value;
    atomic() = default;
    constexpr atomic(T initial) : value(initial) {}
#define PEAKGATE_FORWARD(name, ...)                                                                                    \
    template <class... A> __attribute__((always_inline)) auto name(A&&... arguments) __VA_ARGS__ volatile {            \
        return atomic_ref<T, S>(const_cast<T&>(value)).name(static_cast<A&&>(arguments)...);                           \
    }
    PEAKGATE_FORWARD(load, const)
    PEAKGATE_FORWARD(store)
    PEAKGATE_FORWARD(exchange)
    PEAKGATE_FORWARD(compare_exchange_strong)
    PEAKGATE_FORWARD(compare_exchange_weak)
    PEAKGATE_FORWARD(fetch_add)
    PEAKGATE_FORWARD(fetch_sub)
    PEAKGATE_FORWARD(fetch_and)
    PEAKGATE_FORWARD(fetch_or)
    PEAKGATE_FORWARD(fetch_xor)
    PEAKGATE_FORWARD(fetch_min)
    PEAKGATE_FORWARD(fetch_max)
    PEAKGATE_FORWARD(wait, const)
#undef PEAKGATE_FORWARD
    void notify_one() volatile {}
    void notify_all() volatile {}
    T operator++() volatile { return fetch_add(T(1)) + 1; }
    T operator++(int) volatile { return fetch_add(T(1)); }
    T operator--() volatile { return fetch_sub(T(1)) - 1; }
    T operator--(int) volatile { return fetch_sub(T(1)); }
    T operator+=(T operand) volatile { return fetch_add(operand) + operand; }
    T operator-=(T operand) volatile { return fetch_sub(operand) - operand; }
    T operator=(T operand) volatile { return store(operand), operand; }
    operator T() const volatile { return load(); }
};
namespace std {
template <class T> using atomic = ::cuda::atomic<T>;
template <class T> using atomic_ref = ::cuda::atomic_ref<T>;
} // namespace std
inline void atomic_thread_fence(memory_order order, thread_scope scope = thread_scope_system) {
    peakgate_fence(details::order_of(order), details::scope_of(scope));
}

// ---- latches and semaphores ----
template <thread_scope S = thread_scope_system> struct latch {
    ptrdiff_t left;
    latch() = default;
    constexpr explicit latch(ptrdiff_t expected) : left(expected) {}
    latch(const latch&) = delete;
    PEAKGATE_UNCHECKED void counted(ptrdiff_t count, const void* caller) {
        const auto next = [=](ptrdiff_t before) PEAKGATE_NEXT { return before - count; };
        if (::cuda::atomic_ref<ptrdiff_t, S>(left).updated(next, memory_order_release, caller) < count)
            peakgate_precondition("a latch is counted down at most to zero", caller);
    }
    PEAKGATE_UNCHECKED bool is_down(const void* caller) const {
        return ::cuda::atomic_ref<ptrdiff_t, S>(const_cast<ptrdiff_t&>(left)).loaded(memory_order_acquire, caller) == 0;
    }
    PEAKGATE_MEMBER void count_down(ptrdiff_t count = 1) { counted(count, __builtin_return_address(0)); }
    PEAKGATE_MEMBER bool try_wait() const { return is_down(__builtin_return_address(0)); }
    PEAKGATE_MEMBER void wait() const {
        while (!is_down(__builtin_return_address(0))) {
        }
    }
    PEAKGATE_MEMBER void arrive_and_wait(ptrdiff_t count = 1) {
        counted(count, __builtin_return_address(0));
        while (!is_down(__builtin_return_address(0))) {
        }
    }
    friend void init(latch* made, ptrdiff_t expected) { made->left = expected; }
};
template <thread_scope S = thread_scope_system, ptrdiff_t most = (ptrdiff_t{1} << 31) - 1> struct counting_semaphore {
    ptrdiff_t count;
    counting_semaphore() = default;
    constexpr explicit counting_semaphore(ptrdiff_t initial) : count(initial) {}
    counting_semaphore(const counting_semaphore&) = delete;
    static constexpr ptrdiff_t max() { return most; }
    PEAKGATE_MEMBER void release(ptrdiff_t more = 1) {
        const auto next = [=](ptrdiff_t before) PEAKGATE_NEXT { return before + more; };
        const ::cuda::atomic_ref<ptrdiff_t, S> at(count);
        if (at.updated(next, memory_order_release, __builtin_return_address(0)) > most - more)
            peakgate_precondition("a semaphore is released at most to its maximum", __builtin_return_address(0));
    }
    PEAKGATE_UNCHECKED bool taken(const void* caller) {
        const ::cuda::atomic_ref<ptrdiff_t, S> at(count);
        for (ptrdiff_t seen = at.loaded(memory_order_relaxed, caller); seen > 0;) {
            const ptrdiff_t wanted = seen;
            seen = peakgate_atomicCAS_from(&count, wanted, wanted - 1, PEAKGATE_ACQUIRE, details::scope_of(S), caller);
            if (seen == wanted) return true;
        }
        return false;
    }
    PEAKGATE_MEMBER bool try_acquire() { return taken(__builtin_return_address(0)); }
    PEAKGATE_MEMBER void acquire() {
        while (!taken(__builtin_return_address(0))) {
        }
    }
};
template <thread_scope S = thread_scope_system> using binary_semaphore = counting_semaphore<S, 1>;
namespace std {
using latch = ::cuda::latch<>;
template <ptrdiff_t most = (ptrdiff_t{1} << 31) - 1> using counting_semaphore = ::cuda::counting_semaphore<thread_scope_system, most>;
using binary_semaphore = ::cuda::binary_semaphore<>;
} // namespace std

// ---- barriers ----
// Outside shared memory libcu++'s barrier is an atomic word: the phase's parity, the arrivals, and the complement of those
// that are expected.
namespace details {
constexpr uint64_t PHASE = uint64_t{1} << 63, ARRIVAL = uint64_t{1} << 32, EXPECTED = ARRIVAL - 1;
inline uint64_t barrier_word(ptrdiff_t expected) {
    const uint64_t missing = (uint64_t{1} << 31) - static_cast<uint64_t>(expected);
    return missing * ARRIVAL | missing;
}
template <thread_scope S> PEAKGATE_UNCHECKED uint64_t arrive_at_word(unsigned long long& word, ptrdiff_t count, bool leaves, const void* caller) {
    const ::cuda::atomic_ref<unsigned long long, S> at(word);
    const auto plus = [&](uint64_t more, memory_order order) {
        return at.updated([=](unsigned long long before) PEAKGATE_NEXT { return before + more; }, order, caller);
    };
    if (leaves) plus(1, memory_order_relaxed);
    const uint64_t arrivals = ARRIVAL * static_cast<uint64_t>(count), before = plus(arrivals, memory_order_acq_rel);
    if ((before ^ (before + arrivals)) & PHASE) plus((before & EXPECTED) * ARRIVAL, memory_order_relaxed);
    return before & PHASE;
}
template <thread_scope S> PEAKGATE_UNCHECKED bool word_has_left(unsigned long long& word, uint64_t phase, bool blocks, const void* caller) {
    const ::cuda::atomic_ref<unsigned long long, S> at(word);
    do {
        if ((at.loaded(memory_order_acquire, caller) & PHASE) != phase) return true;
    } while (blocks);
    return false;
}
} // namespace details

template <thread_scope S = thread_scope_system> struct barrier {
    unsigned long long state;
    using arrival_token = unsigned long long;

    barrier() = default;
    PEAKGATE_MEMBER explicit barrier(ptrdiff_t expected) { begin(expected, __builtin_return_address(0)); }
    barrier(const barrier&) = delete;

    bool is_object() const { return peakgate_is_shared(&state); }
    PEAKGATE_UNCHECKED void begin(ptrdiff_t expected, const void* caller) {
        if (is_object()) return peakgate_sync_init(&state, static_cast<int>(expected), caller);
        peakgate_access(&state, sizeof state, 1, caller);
        state = details::barrier_word(expected);
    }
    arrival_token arrived(ptrdiff_t count, bool leaves, const void* caller) {
        if (!is_object()) return details::arrive_at_word<S>(state, count, leaves, caller);
        return peakgate_sync_arrive(&state, static_cast<int>(count), leaves ? PEAKGATE_LEAVES : 0, caller);
    }
    bool waited(arrival_token phase, bool blocks, const void* caller) {
        if (!is_object()) return details::word_has_left<S>(state, phase, blocks, caller);
        return peakgate_sync_wait(&state, phase, blocks ? PEAKGATE_BLOCKS : 0, caller);
    }
    bool waited_parity(bool parity, bool blocks, const void* caller) {
        if (!is_object()) return details::word_has_left<S>(state, parity ? details::PHASE : 0, blocks, caller);
        return peakgate_sync_parity(&state, parity, blocks ? PEAKGATE_BLOCKS : 0, caller);
    }

    PEAKGATE_MEMBER arrival_token arrive(ptrdiff_t count = 1) { return arrived(count, false, __builtin_return_address(0)); }
    PEAKGATE_MEMBER void wait(arrival_token phase) { waited(phase, true, __builtin_return_address(0)); }
    PEAKGATE_MEMBER bool try_wait(arrival_token phase) { return waited(phase, false, __builtin_return_address(0)); }
    PEAKGATE_MEMBER void wait_parity(bool parity) { waited_parity(parity, true, __builtin_return_address(0)); }
    PEAKGATE_MEMBER bool try_wait_parity(bool parity) { return waited_parity(parity, false, __builtin_return_address(0)); }
    PEAKGATE_MEMBER void arrive_and_wait() {
        waited(arrived(1, false, __builtin_return_address(0)), true, __builtin_return_address(0));
    }
    PEAKGATE_MEMBER void arrive_and_drop() { arrived(1, true, __builtin_return_address(0)); }
    PEAKGATE_MEMBER friend void init(barrier* made, ptrdiff_t expected) { made->begin(expected, __builtin_return_address(0)); }
};

// ---- pipelines ----
enum class pipeline_role { producer, consumer };
template <thread_scope, unsigned stages> struct pipeline_shared_state {
    unsigned long long full[stages], empty[stages];
    unsigned producers, users;
};

// For one thread, its asynchronous copies; for a group, a ring of stages. A stage is full when all producers have
// committed it and their copies have arrived, empty when all consumers have released it.
template <thread_scope> struct pipeline {
    unsigned long long *full = nullptr, *empty = nullptr;
    unsigned* users = nullptr;
    unsigned stages = 0;
    bool produces = true, consumes = true;
    unsigned filled = 0, emptied = 0;

    PEAKGATE_MEMBER void producer_acquire() {
        if (!produces) peakgate_precondition("producer_acquire() is called by a producer", __builtin_return_address(0));
        if (stages && filled >= stages)
            peakgate_sync_wait(&empty[filled % stages], filled / stages - 1, PEAKGATE_BLOCKS, __builtin_return_address(0));
    }
    PEAKGATE_MEMBER void producer_commit() {
        if (!produces) peakgate_precondition("producer_commit() is called by a producer", __builtin_return_address(0));
        if (stages) {
            peakgate_async_bind_all(&full[filled % stages]);
            peakgate_sync_arrive(&full[filled % stages], 1, 0, __builtin_return_address(0));
        } else {
            peakgate_async_commit();
        }
        ++filled;
    }
    PEAKGATE_MEMBER void consumer_wait() {
        if (!consumes) peakgate_precondition("consumer_wait() is called by a consumer", __builtin_return_address(0));
        if (stages)
            peakgate_sync_wait(&full[emptied % stages], emptied / stages, PEAKGATE_BLOCKS, __builtin_return_address(0));
        else
            peakgate_async_wait(static_cast<int>(filled - emptied - 1));
    }
    PEAKGATE_MEMBER void consumer_release() {
        if (!consumes) peakgate_precondition("consumer_release() is called by a consumer", __builtin_return_address(0));
        if (stages) peakgate_sync_arrive(&empty[emptied % stages], 1, 0, __builtin_return_address(0));
        ++emptied;
    }
    PEAKGATE_MEMBER bool quit() { return !stages || --*users == 0; }
};
namespace details {
template <class G, thread_scope S, unsigned N>
PEAKGATE_MEMBER pipeline<S> shared_pipeline(const G& group, pipeline_shared_state<S, N>* shared, bool produces, bool consumes,
                                            const void* caller) {
    const bool first = group.thread_rank() == 0;
    const auto size = static_cast<unsigned>(group.size());
    if (first) shared->producers = 0, shared->users = size;
    cooperative_groups::details::meet(group, ~__builtin_LINE(), caller);
    shared->producers += produces;
    cooperative_groups::details::meet(group, ~__builtin_LINE(), caller);
    const unsigned consumers = produces && consumes ? size : size - shared->producers;
    for (unsigned stage = 0; first && stage < N; ++stage) {
        peakgate_sync_init(&shared->full[stage], static_cast<int>(shared->producers), caller);
        peakgate_sync_init(&shared->empty[stage], static_cast<int>(consumers), caller);
    }
    cooperative_groups::details::meet(group, ~__builtin_LINE(), caller);
    return {shared->full, shared->empty, &shared->users, N, produces, consumes};
}
} // namespace details
inline pipeline<thread_scope_thread> make_pipeline() { return {}; }
template <class G, thread_scope S, unsigned N>
PEAKGATE_MEMBER pipeline<S> make_pipeline(const G& group, pipeline_shared_state<S, N>* shared) {
    return details::shared_pipeline(group, shared, true, true, __builtin_return_address(0));
}
template <class G, thread_scope S, unsigned N>
PEAKGATE_MEMBER pipeline<S> make_pipeline(const G& group, pipeline_shared_state<S, N>* shared, pipeline_role role) {
    const bool produces = role == pipeline_role::producer;
    return details::shared_pipeline(group, shared, produces, !produces, __builtin_return_address(0));
}
template <class G, thread_scope S, unsigned N>
PEAKGATE_MEMBER pipeline<S> make_pipeline(const G& group, pipeline_shared_state<S, N>* shared, size_t producers) {
    const bool produces = group.thread_rank() < producers;
    return details::shared_pipeline(group, shared, produces, !produces, __builtin_return_address(0));
}
template <unsigned left, thread_scope S> inline void pipeline_consumer_wait_prior(pipeline<S>&) { peakgate_async_wait(left); }

// ---- asynchronous copies, of one thread or of a group: performed at the wait ----
struct one_thread {
    static unsigned thread_rank() { return 0; }
    static unsigned size() { return 1; }
};
// `aligned_size_t` promises that both addresses have its alignment.
template <size_t N> PEAKGATE_UNCHECKED inline size_t promised(const void* to, const void* from, aligned_size_t<N> bytes, const void* caller) {
    if ((reinterpret_cast<size_t>(to) | reinterpret_cast<size_t>(from)) % N)
        peakgate_precondition("both addresses of a copy have the alignment of its aligned_size_t", caller);
    return bytes.value;
}
template <class G, class D, size_t N, class W>
PEAKGATE_MEMBER void memcpy_async(const G& group, D* destination, const void* source, aligned_size_t<N> bytes, W& with) {
    memcpy_async(group, destination, source, promised(destination, source, bytes, __builtin_return_address(0)), with);
}
template <class D, size_t N, class W>
PEAKGATE_MEMBER void memcpy_async(D* destination, const void* source, aligned_size_t<N> bytes, W& with) {
    memcpy_async(destination, source, promised(destination, source, bytes, __builtin_return_address(0)), with);
}
template <class G, class D, thread_scope S>
inline void memcpy_async(const G& group, D* destination, const void* source, size_t bytes, pipeline<S>&) {
    cooperative_groups::details::copy_async(group, destination, source, bytes);
}
template <class D, thread_scope S> inline void memcpy_async(D* destination, const void* source, size_t bytes, pipeline<S>&) {
    cooperative_groups::details::copy_async(one_thread(), destination, source, bytes);
}
template <class G, class D, thread_scope S>
inline void memcpy_async(const G& group, D* destination, const void* source, size_t bytes, barrier<S>& with) {
    cooperative_groups::details::copy_async(group, destination, source, bytes);
    peakgate_async_bind(&with.state);
}
template <class D, thread_scope S> inline void memcpy_async(D* destination, const void* source, size_t bytes, barrier<S>& with) {
    cooperative_groups::details::copy_async(one_thread(), destination, source, bytes);
    peakgate_async_bind(&with.state);
}

// ---- copies by the copy engine, and barriers that count their bytes ----
namespace device {
template <thread_scope S> inline uint64_t* barrier_native_handle(barrier<S>& of) { return reinterpret_cast<uint64_t*>(&of.state); }
template <thread_scope S> PEAKGATE_MEMBER void barrier_expect_tx(barrier<S>& at, ptrdiff_t bytes) {
    peakgate_sync_bytes(&at.state, static_cast<unsigned>(bytes), 0, __builtin_return_address(0));
}
template <thread_scope S>
PEAKGATE_MEMBER typename barrier<S>::arrival_token barrier_arrive_tx(barrier<S>& at, ptrdiff_t count, ptrdiff_t bytes) {
    peakgate_sync_bytes(&at.state, static_cast<unsigned>(bytes), 0, __builtin_return_address(0));
    return peakgate_sync_arrive(&at.state, static_cast<int>(count), 0, __builtin_return_address(0));
}
template <class D, class B, thread_scope S>
PEAKGATE_MEMBER void memcpy_async_tx(D* to, const D* from, B bytes, barrier<S>& with) {
    peakgate_load_bulk(to, from, static_cast<unsigned>(static_cast<size_t>(bytes)), &with.state, 0, __builtin_return_address(0));
}
namespace experimental {
inline void fence_proxy_async_shared_cta() {
    peakgate_fence(PEAKGATE_ACQ_REL, PEAKGATE_BLOCK);
    peakgate_proxy_fence(PEAKGATE_OF_SHARED | PEAKGATE_OF_BARRIERS);
}
#define PEAKGATE_TILES(axes, parameters, coordinates)                                                                  \
    template <class M, thread_scope S>                                                                                 \
    PEAKGATE_MEMBER void cp_async_bulk_tensor_##axes##d_global_to_shared(void* to, const M* map, PEAKGATE_ALL parameters, \
                                                                         barrier<S>& with) {                           \
        const PeakgateTile tile = {map, axes, {PEAKGATE_ALL coordinates}};                                             \
        peakgate_load_tile(to, &tile, &with.state, 0, 0, __builtin_return_address(0));                                    \
    }                                                                                                                  \
    template <class M>                                                                                                 \
    PEAKGATE_MEMBER void cp_async_bulk_tensor_##axes##d_shared_to_global(const M* map, PEAKGATE_ALL parameters,        \
                                                                         const void* from) {                           \
        const PeakgateTile tile = {map, axes, {PEAKGATE_ALL coordinates}};                                             \
        peakgate_store_tile(&tile, from, __builtin_return_address(0));                                                 \
    }
#define PEAKGATE_ALL(...) __VA_ARGS__
PEAKGATE_TILES(1, (int a), (a))
PEAKGATE_TILES(2, (int a, int b), (a, b))
PEAKGATE_TILES(3, (int a, int b, int c), (a, b, c))
PEAKGATE_TILES(4, (int a, int b, int c, int d), (a, b, c, d))
PEAKGATE_TILES(5, (int a, int b, int c, int d, int e), (a, b, c, d, e))
#undef PEAKGATE_TILES
#undef PEAKGATE_ALL
template <thread_scope S>
PEAKGATE_MEMBER void cp_async_bulk_global_to_shared(void* to, const void* from, unsigned bytes, barrier<S>& with) {
    peakgate_load_bulk(to, from, bytes, &with.state, 0, __builtin_return_address(0));
}
PEAKGATE_MEMBER inline void cp_async_bulk_shared_to_global(void* to, const void* from, unsigned bytes) {
    peakgate_store_bulk(to, from, bytes, __builtin_return_address(0));
}
inline void cp_async_bulk_commit_group() { peakgate_bulk_commit(); }
template <int left> inline void cp_async_bulk_wait_group() { peakgate_bulk_wait(left, 0); }
template <int left> inline void cp_async_bulk_wait_group_read() { peakgate_bulk_wait(left, 1); }
} // namespace experimental
} // namespace device

} // namespace cuda
