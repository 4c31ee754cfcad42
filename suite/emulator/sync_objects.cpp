// Objects in memory that threads of a block order themselves by: barriers that are arrived at and waited for
// (cuda::barrier, mbarrier), and atomics that release and acquire. Known by their address for as long as a block runs.
#include "runtime.h"

#include <string.h>

namespace peakgate {
namespace {

constexpr int MAX_OBJECTS = 512;
constexpr int PHASES = 2; // of a barrier, the one that fills and the one before it

struct SyncObject {
    uintptr_t address;
    int expected, pending; // arrivals of a phase, and how many of them are still missing
    uint64_t phase;
    uint32_t known[PHASES][MAX_THREADS]; // what those who arrived, or released, knew
};

SyncObject objects[MAX_OBJECTS];
int object_count;

SyncObject* known_object(const void* address) {
    for (int i = object_count; i-- > 0;) {
        if (objects[i].address == reinterpret_cast<uintptr_t>(address)) return &objects[i];
    }
    return nullptr;
}

SyncObject& object_at(const void* address, uintptr_t caller) {
    if (SyncObject* known = known_object(address)) return *known;
    if (object_count == MAX_OBJECTS) {
        report(FAULT, caller, 0, "more than %d barriers and atomics that synchronise in one block", MAX_OBJECTS);
        abandon_launch();
    }
    SyncObject& made = objects[object_count++];
    memset(&made, 0, sizeof made);
    made.address = reinterpret_cast<uintptr_t>(address);
    return made;
}

SyncObject& barrier_at(const void* address, uintptr_t caller) {
    SyncObject* known = known_object(address);
    if (!known || !known->expected) {
        report(DIVERGENT_BARRIER, caller, 0, "a barrier object is used that nobody has initialised");
        abandon_launch();
    }
    peakgate_atomic(address, 8, reinterpret_cast<const void*>(caller));
    return *known;
}

} // namespace

void begin_block_of_sync_objects() { object_count = 0; }

bool report_sync_objects() {
    for (int i = 0; i < state.thread_count; ++i) {
        if (state.threads[i].status != AT_OBJECT) continue;
        const SyncObject& object = objects[state.threads[i].barrier_site];
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
    const uintptr_t place = object.address;
    memset(&object, 0, sizeof object);
    object.address = place;
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
    publish_to(object.known[phase % PHASES]);
    object.pending -= count;
    object.expected -= leaves ? count : 0;
    if (object.pending == 0) {
        ++object.phase;
        object.pending = object.expected;
        memset(object.known[object.phase % PHASES], 0, sizeof object.known[0]);
        const int number = static_cast<int>(&object - objects);
        for (int i = 0; i < state.thread_count; ++i) {
            if (state.threads[i].status == AT_OBJECT && state.threads[i].barrier_site == number) state.threads[i].status = READY;
        }
    }
    return phase;
}

int peakgate_sync_wait(void* address, uint64_t phase, int blocks, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    SyncObject& object = barrier_at(address, called_at);
    if (object.phase == phase && !blocks) wait_as(READY, called_at); // lets the others run
    while (object.phase == phase && blocks) {
        current_thread().barrier_site = static_cast<int>(&object - objects);
        wait_as(AT_OBJECT, called_at);
    }
    if (object.phase == phase) return 0;
    acquire_from(object.known[phase % PHASES]);
    return 1;
}

int peakgate_sync_parity(void* address, int parity, int blocks, const void* caller) {
    SyncObject& object = barrier_at(address, reinterpret_cast<uintptr_t>(caller));
    // The phase of this parity has ended where the running one has the other.
    if (static_cast<int>(object.phase & 1) != parity) return peakgate_sync_wait(address, object.phase - 1, blocks, caller);
    return peakgate_sync_wait(address, object.phase, blocks, caller);
}

void peakgate_sync_release(void* address, const void* caller) {
    peakgate_fence();
    publish_to(object_at(address, reinterpret_cast<uintptr_t>(caller)).known[0]);
}

void peakgate_sync_acquire(void* address, const void* caller) {
    if (const SyncObject* known = known_object(address)) acquire_from(known->known[0]);
    wait_as(READY, reinterpret_cast<uintptr_t>(caller)); // lets the others run: it may be polled
}
