// PTX's sixteen named barriers of a block, for some of its threads (bar.sync, bar.arrive).
#include "runtime.h"

#include <stdlib.h>

namespace peakgate {

constexpr int BARRIERS = 16;

struct NamedBarrier {
    int expected; // 0 until the first thread arrives
    int count;    // including threads that only arrive
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

} // namespace peakgate

using namespace peakgate;

void peakgate_named_barrier(int name, int threads, int waits, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    const int expected = threads ? threads : (state.thread_count + WARP - 1) / WARP * WARP;
    if (name < 0 || name >= BARRIERS || expected % WARP) {
        report(DIVERGENT_BARRIER, called_at, 0, "named barrier %d for %d threads; names are 0 to 15, threads whole warps",
               name, threads);
        abandon_launch();
    }
    NamedBarrier& barrier = state.block->named_barriers->barriers[name];
    if (barrier.count && barrier.expected != expected) {
        report(DIVERGENT_BARRIER, called_at, 0, "named barrier %d is used for %d threads and for %d", name, expected,
               barrier.expected);
        abandon_launch();
    }
    if (!barrier.count) forget_published(barrier.published);
    barrier.expected = expected;
    ++barrier.count;
    publish_to(barrier.published);
    const int limit = expected < state.thread_count ? expected : state.thread_count;
    if (barrier.count < limit) {
        current_thread().barrier_site = name;
        if (waits) wait_as(AT_NAMED_BARRIER, called_at);
        return;
    }
    barrier.count = 0;
    if (waits) acquire_from(barrier.published, state.current);
    for (int i = 0; i < state.thread_count; ++i) {
        Thread& thread = state.threads[i];
        if (thread.status != AT_NAMED_BARRIER || thread.barrier_site != name) continue;
        thread.status = READY;
        acquire_from(barrier.published, i);
    }
}
