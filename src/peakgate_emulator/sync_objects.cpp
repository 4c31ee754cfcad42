// Barrier objects in memory (cuda::barrier, mbarrier), identified by their address while their block runs. Threads of
// other blocks of the cluster may only arrive at them.
//
// A phase ends when all arrivals and all announced bytes are there. Bytes count as soon as their copy is sent, but the
// copies are performed, and the phase ends, only when a thread tests the barrier; until then the data are missing.
#include "shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace peakgate {

constexpr int MAX_OBJECTS = 512;
constexpr int PHASES = 2; // of a barrier: the current one and the previous one

struct SyncObject {
    uintptr_t address;
    int expected, pending; // arrivals per phase, and the number still missing
    uint64_t phase;
    int64_t announced, sent; // bytes of a phase
    Access initialised;      // the initialisation
    bool fenced;             // whether a fence has made it visible to the copy engine
    Published published[PHASES]; // clocks of the threads that arrived
};

struct SyncObjects {
    SyncObject objects[MAX_OBJECTS];
    int count;
};

SyncObjects* new_sync_objects() { return static_cast<SyncObjects*>(calloc(1, sizeof(SyncObjects))); }

namespace {

SyncObjects& here() { return *state.block->sync_objects; }

SyncObject* known_object(const Place& place) {
    SyncObjects& all = *place.block->sync_objects;
    for (int i = all.count; i-- > 0;) {
        if (all.objects[i].address == place.address) return &all.objects[i];
    }
    return nullptr;
}

void reset(SyncObject& object, uintptr_t address) {
    for (Published& published : object.published) forget_published(published);
    object.address = address;
    object.expected = object.pending = 0;
    object.phase = 0;
    object.announced = object.sent = 0;
    object.fenced = false;
}

SyncObject& object_at(const void* address, uintptr_t caller) {
    if (SyncObject* known = known_object({state.block, reinterpret_cast<uintptr_t>(address)})) return *known;
    if (here().count == MAX_OBJECTS) {
        report(FAULT, caller, 0, "more than %d barrier objects in one block", MAX_OBJECTS);
        abandon_launch();
    }
    SyncObject& made = here().objects[here().count++];
    reset(made, reinterpret_cast<uintptr_t>(address));
    return made;
}

// Whether the last write of a word of an object was its initialisation or an operation on it.
bool holds_object(const Cell& cell, const SyncObject& object) {
    const Access& write = cell.write;
    return (write.details & STRONG) ||
           (write.address == object.initialised.address && write.thread == object.initialised.thread);
}

// A barrier object of this or of another block of the cluster.
struct Barrier {
    Block& block;
    SyncObject& object;
    bool is_own() const { return &block == state.block; }
};

Barrier barrier_at(const void* address, uintptr_t caller) {
    if (const int rank = rank_reached(reinterpret_cast<uintptr_t>(address)); rank >= 0) visit(rank, caller);
    const Place place = place_in_cluster(reinterpret_cast<uintptr_t>(address));
    SyncObject* known = known_object(place);
    if (!known || !known->expected) {
        report(DIVERGENT_BARRIER, caller, 0, "a barrier object is used without being initialised");
        abandon_launch();
    }
    for (int word = 0; word < 2; ++word) {
        const Cell* const cell = cell_of(reinterpret_cast<uintptr_t>(address) + 4 * static_cast<uintptr_t>(word));
        if (!cell || cell->write.epoch < known->initialised.epoch || holds_object(*cell, *known)) continue;
        report(DIVERGENT_BARRIER, caller, state.image + cell->write.address,
               "a barrier object is used whose memory has been written as data since it was initialised");
        abandon_launch();
    }
    check_barrier_object(address, caller);
    return {*place.block, *known};
}

// A barrier object to wait at, which must be the block's own.
SyncObject& own_barrier_at(const void* address, uintptr_t caller) {
    const Barrier barrier = barrier_at(address, caller);
    if (!barrier.is_own()) {
        report(DIVERGENT_BARRIER, caller, 0, "waits for a barrier object of another block of the cluster, at which it may only arrive");
        abandon_launch();
    }
    return barrier.object;
}

int number_of(const Block& block, const SyncObject& object) { return static_cast<int>(&object - block.sync_objects->objects); }

long place_of(const SyncObject& object) { return place(SHARED, object.address - state.shared); }

bool is_complete(const SyncObject& object) { return object.pending == 0 && object.announced == object.sent; }

void wake(Block& block, int number) {
    for (int i = 0; i < state.thread_count; ++i) {
        Thread& thread = block.threads[i];
        if (thread.status == AT_OBJECT && thread.barrier_site == number) thread.status = READY;
    }
}

bool has_copies(const Block& block, const SyncObject& object) {
    return (state.agents && has_bulk_copies(block, number_of(block, object))) ||
           has_async_copies(block, reinterpret_cast<const void*>(object.address));
}

void end_phase(Block& block, SyncObject& object) {
    if (&block != state.block && has_copies(block, object)) {
        const InBlock in(block);
        end_phase(block, object);
        return;
    }
    Published& published = object.published[object.phase % PHASES];
    const int number = number_of(block, object);
    if (&block == state.block) {
        complete_async_copies(reinterpret_cast<const void*>(object.address), published);
        if (state.agents) complete_bulk_copies(number, published);
    }
    ++object.phase;
    object.pending = object.expected;
    object.announced = object.sent = 0;
    ++state.progress;
    forget_published(object.published[object.phase % PHASES]);
    wake(block, number);
}

bool somebody_waits_at(const Block& block, int number) {
    for (int i = 0; i < state.thread_count; ++i) {
        if (block.threads[i].status == AT_OBJECT && block.threads[i].barrier_site == number) return true;
    }
    return false;
}

void check_count(const SyncObject& object, int count, uintptr_t caller) {
    if (count >= 1 && count <= object.pending) return;
    report(DIVERGENT_BARRIER, caller, 0, "%d arrivals at a barrier object that expects %d more", count, object.pending);
    abandon_launch();
}

void check_bytes(const SyncObject& object, uintptr_t caller) {
    if (object.pending || object.sent <= object.announced) return;
    report(DIVERGENT_BARRIER, caller, 0, "%lld bytes arrive at the barrier object at byte %ld of shared memory, whose phase expects %lld",
           static_cast<long long>(object.sent), place_of(object), static_cast<long long>(object.announced));
    abandon_launch();
}

// Ends the phase if nothing is missing and nobody has to test the barrier for it.
void settle(const Barrier& barrier) {
    if (!is_complete(barrier.object)) return;
    const int number = number_of(barrier.block, barrier.object);
    if (!state.agents || !has_bulk_copies(barrier.block, number) || somebody_waits_at(barrier.block, number))
        end_phase(barrier.block, barrier.object);
    else
        ++state.progress;
}

} // namespace

void begin_block_of_sync_objects() { here().count = 0; }

bool report_sync_objects() {
    for (int i = 0; i < state.thread_count; ++i) {
        if (state.threads[i].status != AT_OBJECT) continue;
        const SyncObject& object = here().objects[state.threads[i].barrier_site];
        state.current = i;
        char words[100];
        describe_object(number_of(*state.block, object), words, sizeof words);
        report(DIVERGENT_BARRIER, current_thread().waits_at, 0, "%s", words);
        return true;
    }
    return false;
}

void describe_object(int number, char* words, size_t size) {
    const SyncObject& object = here().objects[number];
    const int written = snprintf(words, size, "a barrier object waits for %d arrivals, of which %d are missing", object.expected,
                                 object.pending);
    if (object.announced != object.sent && written > 0 && static_cast<size_t>(written) < size)
        snprintf(words, size, "the barrier object at byte %ld of shared memory lacks %d arrivals and has %lld of %lld bytes",
                 place_of(object), object.pending, static_cast<long long>(object.sent), static_cast<long long>(object.announced));
}

int expect_arrival(const void* address, uint32_t bytes, uintptr_t caller) {
    const Barrier barrier = barrier_at(address, caller);
    SyncObject& object = barrier.object;
    if (!object.fenced && !fenced_for_agents(barrier.block, object.initialised, PEAKGATE_OF_BARRIERS)) {
        report(SHARED_RACE, caller, state.image + object.initialised.address,
               "bytes are to arrive at the barrier object at byte %ld of shared memory, which was initialised with no "
               "fence.mbarrier_init or fence.proxy.async after it",
               place_of(object));
    }
    object.fenced = true;
    if (!barrier.is_own() && is_complete(object)) end_phase(barrier.block, object); // it has not been tested yet
    object.sent += bytes;
    check_bytes(object, caller);
    // The arrival of bytes is a release at cluster scope (PTX ISA, st.async and cp.async.bulk), also of what its thread knows.
    Published& published = object.published[object.phase % PHASES];
    if (barrier.is_own())
        publish_to(published);
    else
        publish_across(published.across);
    return number_of(barrier.block, object);
}

void arrive_for_agent(const void* address, int agent, uint32_t stamp, uintptr_t caller) {
    const Barrier barrier = barrier_at(address, caller);
    SyncObject& object = barrier.object;
    if (!barrier.is_own() && is_complete(object)) end_phase(barrier.block, object); // it has not been tested yet
    check_count(object, 1, caller);
    Published& published = object.published[object.phase % PHASES];
    if (barrier.is_own()) {
        publish_to(published);
        if (published.known[agent] <= stamp) published.known[agent] = stamp + 1;
    } else {
        publish_across(published.across);
        publish_agent(published.across, state.block->number, agent, stamp + 1);
    }
    --object.pending;
    check_bytes(object, caller);
    settle(barrier);
}

void settle_bytes(Block& block, int number) {
    SyncObject& object = block.sync_objects->objects[number];
    ++state.progress;
    if (is_complete(object) && somebody_waits_at(block, number)) end_phase(block, object);
}

} // namespace peakgate

using namespace peakgate;

void peakgate_sync_init(void* address, int expected, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    if (rank_reached(reinterpret_cast<uintptr_t>(address)) >= 0) {
        report(DIVERGENT_BARRIER, called_at, 0, "a barrier object of another block of the cluster is initialised");
        abandon_launch();
    }
    constexpr int most = (1 << 20) - 1;
    if (expected < 1 || expected > most) {
        report(DIVERGENT_BARRIER, called_at, 0, "a barrier object is initialised for %d arrivals, expected 1 to %d", expected, most);
        abandon_launch();
    }
    check_write(address, 8, called_at);
    SyncObject& object = object_at(address, called_at);
    reset(object, object.address);
    object.expected = object.pending = expected;
    object.initialised = now(INITIALISED, INITIALISED, called_at);
}

void peakgate_sync_fresh(const void* address, const void* caller) {
    const auto at = reinterpret_cast<uintptr_t>(address);
    const SyncObject* const known = state.checking ? known_object({state.block, at}) : nullptr;
    const Cell* const cell = known && known->expected ? cell_of(at) : nullptr;
    if (!cell || cell->write.epoch < known->initialised.epoch || !holds_object(*cell, *known)) return;
    report(DIVERGENT_BARRIER, reinterpret_cast<uintptr_t>(caller), state.image + known->initialised.address,
           "a barrier object is initialised again that is in use: mbarrier.inval is missing");
}

void peakgate_sync_invalidate(void* address, const void* caller) {
    const Barrier barrier = barrier_at(address, reinterpret_cast<uintptr_t>(caller));
    barrier.object.expected = 0;
}

void peakgate_sync_bytes(void* address, unsigned bytes, int arrived, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    const Barrier barrier = barrier_at(address, called_at);
    SyncObject& object = barrier.object;
    (arrived ? object.sent : object.announced) += bytes;
    check_bytes(object, called_at);
    settle_bytes(barrier.block, number_of(barrier.block, object));
}

uint64_t peakgate_sync_arrive(void* address, int count, int how, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    const Barrier barrier = barrier_at(address, called_at);
    SyncObject& object = barrier.object;
    if (!barrier.is_own() && is_complete(object)) end_phase(barrier.block, object); // it has not been tested yet
    check_count(object, count, called_at);
    const uint64_t phase = object.phase;
    Published& published = object.published[phase % PHASES];
    if (how & PEAKGATE_UNORDERED) {
        publish_fenced(barrier.is_own() ? published.others : published.across, barrier.is_own() ? PEAKGATE_BLOCK : PEAKGATE_CLUSTER);
        published.of_fences |= barrier.is_own();
        if (barrier.is_own())
            publish_tensors(published);
        else
            publish_tensors(published.across, true);
    } else if (barrier.is_own()) {
        publish_to(published);
    } else if (!(how & PEAKGATE_NARROW)) {
        publish_across(published.across);
    } else {
        publish_tensors(published.across, false);
        publish_across(published.arrived);
    }
    object.pending -= count;
    object.expected -= how & PEAKGATE_LEAVES ? count : 0;
    check_bytes(object, called_at);
    settle(barrier);
    return phase;
}

int peakgate_sync_wait(void* address, uint64_t phase, int how, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    SyncObject& object = own_barrier_at(address, called_at);
    const int number = number_of(*state.block, object);
    const bool blocks = how & PEAKGATE_BLOCKS;
    if (object.phase == phase && !blocks) {
        current_thread().polled_object = number + 1;
        poll(called_at);
        current_thread().polled_object = 0;
    }
    if (object.phase == phase && is_complete(object)) end_phase(*state.block, object);
    while (object.phase == phase && blocks) {
        current_thread().barrier_site = number;
        wait_as(AT_OBJECT, called_at);
    }
    if (object.phase == phase) return 0;
    if (how & PEAKGATE_UNORDERED)
        await_published(object.published[phase % PHASES]);
    else
        acquire_from(object.published[phase % PHASES], state.current, how & PEAKGATE_NARROW);
    return 1;
}

int peakgate_sync_parity(void* address, int parity, int how, const void* caller) {
    const SyncObject& object = own_barrier_at(address, reinterpret_cast<uintptr_t>(caller));
    // The phase with this parity has ended if the current one has the other parity.
    if (static_cast<int>(object.phase & 1) != parity) return peakgate_sync_wait(address, object.phase - 1, how, caller);
    return peakgate_sync_wait(address, object.phase, how, caller);
}
