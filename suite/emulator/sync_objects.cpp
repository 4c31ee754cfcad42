// Objects in memory that threads of a block order themselves by: barriers that are arrived at and waited for
// (cuda::barrier, mbarrier). Known by their address for as long as a block runs.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

namespace peakgate {

constexpr int MAX_OBJECTS = 512;
constexpr int PHASES = 2; // of a barrier, the one that fills and the one before it

struct SyncObject {
    uintptr_t address;
    int expected, pending; // arrivals of a phase, and how many of them are still missing
    uint64_t phase;
    Published published[PHASES]; // what those who arrived knew
};

struct SyncObjects {
    SyncObject objects[MAX_OBJECTS];
    int count;
};

SyncObjects* new_sync_objects() { return static_cast<SyncObjects*>(calloc(1, sizeof(SyncObjects))); }

namespace {

SyncObjects& here() { return *state.block->sync_objects; }

SyncObject* known_object(const void* address) {
    SyncObjects& all = here();
    for (int i = all.count; i-- > 0;) {
        if (all.objects[i].address == reinterpret_cast<uintptr_t>(address)) return &all.objects[i];
    }
    return nullptr;
}

void reset(SyncObject& object, uintptr_t address) {
    for (Published& published : object.published) forget_published(published);
    object.address = address;
    object.expected = object.pending = 0;
    object.phase = 0;
}

SyncObject& object_at(const void* address, uintptr_t caller) {
    if (SyncObject* known = known_object(address)) return *known;
    if (here().count == MAX_OBJECTS) {
        report(FAULT, caller, 0, "more than %d barrier objects in one block", MAX_OBJECTS);
        abandon_launch();
    }
    SyncObject& made = here().objects[here().count++];
    reset(made, reinterpret_cast<uintptr_t>(address));
    return made;
}

SyncObject& barrier_at(const void* address, uintptr_t caller) {
    SyncObject* known = known_object(address);
    if (!known || !known->expected) {
        report(DIVERGENT_BARRIER, caller, 0, "a barrier object is used that nobody has initialised");
        abandon_launch();
    }
    check_barrier_object(address, caller);
    return *known;
}

} // namespace

void begin_block_of_sync_objects() { here().count = 0; }

bool report_sync_objects() {
    for (int i = 0; i < state.thread_count; ++i) {
        if (state.threads[i].status != AT_OBJECT) continue;
        const SyncObject& object = here().objects[state.threads[i].barrier_site];
        state.current = i;
        report(DIVERGENT_BARRIER, current_thread().waits_at, 0,
               "a barrier object waits for %d arrivals, of which %d are missing", object.expected, object.pending);
        return true;
    }
    return false;
}

} // namespace peakgate

using namespace peakgate;

void peakgate_sync_init(void* address, int expected, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    check_write(address, 8, called_at);
    SyncObject& object = object_at(address, called_at);
    reset(object, object.address);
    object.expected = object.pending = expected;
}

uint64_t peakgate_sync_arrive(void* address, int count, int leaves, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    SyncObject& object = barrier_at(address, called_at);
    if (count < 1 || count > object.pending) {
        report(DIVERGENT_BARRIER, called_at, 0, "%d arrivals at a barrier object that expects %d more", count, object.pending);
        abandon_launch();
    }
    const uint64_t phase = object.phase;
    publish_to(object.published[phase % PHASES]);
    object.pending -= count;
    object.expected -= leaves ? count : 0;
    if (object.pending == 0) {
        complete_async_copies(address, object.published[phase % PHASES]);
        ++object.phase;
        object.pending = object.expected;
        ++state.progress;
        forget_published(object.published[object.phase % PHASES]);
        const int number = static_cast<int>(&object - here().objects);
        for (int i = 0; i < state.thread_count; ++i) {
            if (state.threads[i].status == AT_OBJECT && state.threads[i].barrier_site == number) state.threads[i].status = READY;
        }
    }
    return phase;
}

int peakgate_sync_wait(void* address, uint64_t phase, int blocks, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    SyncObject& object = barrier_at(address, called_at);
    if (object.phase == phase && !blocks) poll(called_at);
    while (object.phase == phase && blocks) {
        current_thread().barrier_site = static_cast<int>(&object - here().objects);
        wait_as(AT_OBJECT, called_at);
    }
    if (object.phase == phase) return 0;
    acquire_from(object.published[phase % PHASES], state.current);
    return 1;
}

int peakgate_sync_parity(void* address, int parity, int blocks, const void* caller) {
    SyncObject& object = barrier_at(address, reinterpret_cast<uintptr_t>(caller));
    // The phase of this parity has ended where the running one has the other.
    if (static_cast<int>(object.phase & 1) != parity) return peakgate_sync_wait(address, object.phase - 1, blocks, caller);
    return peakgate_sync_wait(address, object.phase, blocks, caller);
}
