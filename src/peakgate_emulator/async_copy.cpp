// Asynchronous copies from global to shared memory. Hardware may perform one at any time between issue and wait; here
// it is performed at the wait, so a kernel that does not wait computes with missing data. Its addresses are checked
// when it is issued, since hardware uses them in any case. A thread may end with copies in flight.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

namespace peakgate {

struct Copy {
    void* destination;
    const void* source;
    int bytes, source_bytes;
    int group;
    const void* object; // barrier object whose phase completes it; null: its group's wait
    uintptr_t issued_at;
    char given[16]; // the source when it was issued
};

struct Queue {
    Copy* copies;
    int count, capacity;
    int committed; // number of committed groups, which is also the number of the open one
};

struct AsyncCopies {
    Queue queues[MAX_THREADS];
};

AsyncCopies* new_async_copies() { return static_cast<AsyncCopies*>(calloc(1, sizeof(AsyncCopies))); }

namespace {

Queue& queue_of(int thread) { return state.block->async_copies->queues[thread]; }

void append(Queue& queue, const Copy& copy) {
    if (queue.count == queue.capacity) {
        queue.capacity = queue.capacity ? 2 * queue.capacity : 16;
        void* grown = realloc(queue.copies, static_cast<size_t>(queue.capacity) * sizeof(Copy));
        if (!grown) abort();
        queue.copies = static_cast<Copy*>(grown);
    }
    queue.copies[queue.count++] = copy;
}

void perform(const Copy& copy) {
    check_read(copy.source, static_cast<size_t>(copy.source_bytes), copy.issued_at);
    if (memcmp(copy.source, copy.given, static_cast<size_t>(copy.source_bytes)) != 0)
        report(GLOBAL_RACE, copy.issued_at, 0, "the source of an asynchronous copy is written before the copy has been waited for");
    check_write(copy.destination, static_cast<size_t>(copy.bytes), copy.issued_at);
    memcpy(copy.destination, copy.source, static_cast<size_t>(copy.source_bytes));
    memset(static_cast<char*>(copy.destination) + copy.source_bytes, 0,
           static_cast<size_t>(copy.bytes - copy.source_bytes));
}

} // namespace

void drop_async_copies() {
    for (int thread = 0; thread < state.thread_count; ++thread) {
        queue_of(thread).count = 0;
        queue_of(thread).committed = 0;
    }
}

bool has_async_copies(const Block& block, const void* object) {
    for (int thread = 0; thread < state.thread_count; ++thread) {
        const Queue& queue = block.async_copies->queues[thread];
        for (int i = 0; i < queue.count; ++i) {
            if (queue.copies[i].object == object) return true;
        }
    }
    return false;
}

uintptr_t async_copy_in_flight(uintptr_t address, int by) {
    for (int thread = by < 0 ? 0 : by; thread < (by < 0 ? state.thread_count : by + 1); ++thread) {
        const Queue& queue = queue_of(thread);
        for (int i = 0; i < queue.count; ++i) {
            const Copy& copy = queue.copies[i];
            if (address - reinterpret_cast<uintptr_t>(copy.destination) < static_cast<uintptr_t>(copy.bytes)) return copy.issued_at;
        }
    }
    return 0;
}

void complete_async_copies(const void* object, Published& published) {
    const int self = state.current;
    for (int thread = 0; thread < state.thread_count; ++thread) {
        Queue& queue = queue_of(thread);
        int kept = 0;
        for (int i = 0; i < queue.count; ++i) {
            if (queue.copies[i].object != object) {
                queue.copies[kept++] = queue.copies[i];
                continue;
            }
            state.current = thread;
            use_clock_of(thread);
            perform(queue.copies[i]);
        }
        if (kept != queue.count) publish_to(published);
        queue.count = kept;
    }
    state.current = self;
    use_clock_of(self);
}

} // namespace peakgate

using namespace peakgate;

void peakgate_async_copy(void* destination, const void* source, int bytes, int source_bytes) {
    const uintptr_t caller = PEAKGATE_CALLER;
    if (bytes != 4 && bytes != 8 && bytes != 16) {
        report(MISALIGNED, caller, 0, "asynchronous copy of %d bytes; only 4, 8 and 16 are possible", bytes);
        abandon_launch();
    }
    if (source_bytes < 0 || source_bytes > bytes) {
        report(OUT_OF_BOUNDS, caller, 0, "asynchronous copy of %d bytes with %d bytes of source", bytes, source_bytes);
        abandon_launch();
    }
    const bool destination_fits = reinterpret_cast<uintptr_t>(destination) % static_cast<uintptr_t>(bytes) == 0;
    const bool source_fits = reinterpret_cast<uintptr_t>(source) % static_cast<uintptr_t>(bytes) == 0;
    if (!destination_fits || (source_bytes > 0 && !source_fits)) {
        report(MISALIGNED, caller, 0, "asynchronous copy of %d bytes whose %s is not aligned to them", bytes,
               destination_fits ? "source" : "destination");
        abandon_launch();
    }
    check_async_source(source, static_cast<size_t>(source_bytes), caller);
    check_async_destination(destination, static_cast<size_t>(bytes), caller);
    memset(destination, 0xff, static_cast<size_t>(bytes));
    Queue& queue = queue_of(state.current);
    Copy copy = {destination, source, bytes, source_bytes, queue.committed, nullptr, caller, {}};
    if (source_bytes) memcpy(copy.given, source, static_cast<size_t>(source_bytes));
    append(queue, copy);
}

void peakgate_async_bind(const void* object) {
    Queue& queue = queue_of(state.current);
    for (int i = 0; i < queue.count; ++i) {
        if (!queue.copies[i].object && queue.copies[i].group == queue.committed) queue.copies[i].object = object;
    }
}

void peakgate_async_bind_all(const void* object) {
    Queue& queue = queue_of(state.current);
    for (int i = 0; i < queue.count; ++i) {
        if (!queue.copies[i].object) queue.copies[i].object = object;
    }
}

void peakgate_async_commit() { ++queue_of(state.current).committed; }

void peakgate_async_wait(int groups_left) {
    Queue& queue = queue_of(state.current);
    int kept = 0;
    for (int i = 0; i < queue.count; ++i) {
        if (!queue.copies[i].object && queue.copies[i].group < queue.committed - groups_left)
            perform(queue.copies[i]);
        else
            queue.copies[kept++] = queue.copies[i];
    }
    queue.count = kept;
}
