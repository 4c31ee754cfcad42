// PTX's sixteen named barriers of a block, for some of its threads (bar.sync, bar.arrive).
#include "shadow.h"

#include <stdlib.h>

namespace peakgate {

constexpr int BARRIERS = 16;

struct Arrival {
    uint32_t phase, epoch, stamp;
};

struct NamedBarrier {
    int expected; // 0 until the first thread arrives
    int count;    // including threads that only arrive
    uint32_t phase;
    uint32_t left_in[MAX_THREADS];    // the phase in which a thread has last arrived without waiting
    Arrival arrivals[2][MAX_THREADS]; // at the phase that is open and the one before it
    Published published;
};

struct NamedBarriers {
    NamedBarrier barriers[BARRIERS];
};

NamedBarriers* new_named_barriers() { return static_cast<NamedBarriers*>(calloc(1, sizeof(NamedBarriers))); }

void begin_block_of_named_barriers() {
    for (NamedBarrier& barrier : state.block->named_barriers->barriers) {
        if (barrier.expected) forget_published(barrier.published);
        barrier.expected = barrier.count = 0;
        barrier.phase += 2; // so that nobody has arrived in the last two
    }
}

bool report_named_barriers() {
    const NamedBarrier* barriers = state.block->named_barriers->barriers;
    for (int i = 0; i < state.thread_count; ++i) {
        if (state.threads[i].status != AT_NAMED_BARRIER) continue;
        const NamedBarrier& barrier = barriers[state.threads[i].barrier_site];
        state.current = i;
        report(DIVERGENT_BARRIER, current_thread().waits_at, 0,
               "named barrier %d waits for %d threads, of which %d have come", current_thread().barrier_site,
               barrier.expected, barrier.count);
        return true;
    }
    return false;
}

// Whether the current thread knows all arrivals of the barrier's last phase, and so its end.
static bool knows_last_phase(const NamedBarrier& barrier) {
    const uint32_t last = barrier.phase - 1;
    for (int i = 0; i < state.thread_count; ++i) {
        const Arrival& arrival = barrier.arrivals[last % 2][i];
        const Access then = {arrival.epoch, arrival.stamp, 0, static_cast<uint16_t>(i), 0, 0};
        if (arrival.phase == last && !ordered(then, SHARED)) return false;
    }
    return true;
}

// A thread that has only arrived must know that the phase has ended before it arrives again: otherwise its two arrivals may
// count for one phase, without those who wait.
static void check_arrival(const NamedBarrier& barrier, int name, uintptr_t caller) {
    const uint32_t left_in = barrier.left_in[state.current];
    if (left_in != barrier.phase && (left_in + 1 != barrier.phase || knows_last_phase(barrier))) return;
    report(DIVERGENT_BARRIER, caller, 0,
           "arrives again at named barrier %d, and nothing orders this after the end of the phase in which it has arrived before", name);
}

void check_barrier_zero(uintptr_t caller) {
    const NamedBarrier& barrier = state.block->named_barriers->barriers[0];
    if (!barrier.expected || (!barrier.count && knows_last_phase(barrier))) return;
    report(DIVERGENT_BARRIER, caller, 0,
           "barrier 0 of all threads (__syncthreads), which may meet others at barrier 0 for %d threads", barrier.expected);
    abandon_launch();
}

} // namespace peakgate

using namespace peakgate;

void peakgate_named_barrier(int name, int threads, int waits, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    const int whole_warps = (state.thread_count + WARP - 1) / WARP * WARP, expected = threads ? threads : whole_warps;
    if (name < 0 || name >= BARRIERS || expected % WARP) {
        report(DIVERGENT_BARRIER, called_at, 0, "named barrier %d for %d threads; names are 0 to 15, threads whole warps",
               name, threads);
        abandon_launch();
    }
    if (expected > whole_warps) {
        report(DIVERGENT_BARRIER, called_at, 0, "named barrier %d for %d threads, which never come: the block has %d", name, expected,
               state.thread_count);
        abandon_launch();
    }
    NamedBarrier& barrier = state.block->named_barriers->barriers[name];
    if (name == 0 && waits && expected >= state.thread_count && !barrier.count) {
        peakgate_barrier_from(PEAKGATE_BARRIER_PLAIN, 0, PEAKGATE_ANY_SITE, caller);
        return;
    }
    for (int i = 0; i < state.thread_count && name == 0; ++i) {
        if (state.threads[i].status != AT_BARRIER) continue;
        report(DIVERGENT_BARRIER, called_at, state.threads[i].waits_at,
               "barrier 0 for %d threads, at which others wait for all threads (__syncthreads)", expected);
        abandon_launch();
    }
    if (barrier.count && barrier.expected != expected) {
        report(DIVERGENT_BARRIER, called_at, 0, "named barrier %d is used for %d threads and for %d", name, expected,
               barrier.expected);
        abandon_launch();
    }
    if (!barrier.count) forget_published(barrier.published);
    barrier.expected = expected;
    check_arrival(barrier, name, called_at);
    barrier.arrivals[barrier.phase % 2][state.current] = {barrier.phase, state.epoch, current_thread().stamp};
    if (!waits) barrier.left_in[state.current] = barrier.phase;
    ++barrier.count;
    publish_to(barrier.published);
    const int limit = expected < state.thread_count ? expected : state.thread_count;
    if (barrier.count < limit) {
        current_thread().barrier_site = name;
        if (waits) wait_as(AT_NAMED_BARRIER, called_at);
        return;
    }
    barrier.count = 0;
    ++barrier.phase;
    if (waits) acquire_from(barrier.published, state.current);
    for (int i = 0; i < state.thread_count; ++i) {
        Thread& thread = state.threads[i];
        if (thread.status != AT_NAMED_BARRIER || thread.barrier_site != name) continue;
        thread.status = READY;
        acquire_from(barrier.published, i);
    }
}
