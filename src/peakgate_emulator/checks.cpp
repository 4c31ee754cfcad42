// Checks every memory access of a kernel built with -fsanitize=thread,bounds,alignment. The sanitizers' own runtimes
// are not linked: the hooks that their instrumentation calls are implemented here, so that a defect is reported to the
// host instead of ending the process.
#include "shadow.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

namespace peakgate {
namespace {

struct Region {
    uintptr_t start, size;
    int argument;
    bool watched; // writes are checked: they are not allowed, or may be a NaN
    Space space;
    Cell* cells; // null if nothing is written, so nothing can race
    const Buffer* buffer;
};

// The arguments, the variables of the kernel's image, and the heap of malloc() in kernels.
Region regions[MAX_BUFFERS + 2];
constexpr int VARIABLES = -2, HEAP = -1; // in place of an argument's number
int region_count;
int last_region;

// Epochs do not repeat, so the shadow memory of an earlier launch need not be cleared. After LAST_EPOCH they restart
// with new shadow memory.
constexpr uint32_t LAST_EPOCH = 1u << 31;

struct Shadow {
    Cell* cells;
    size_t size;
};
Shadow global_shadow, variable_shadow, heap_shadow;
Cell* shared_cells; // of the block that runs
uint32_t shadows_since; // number of restarts of the epochs

void release(Shadow& shadow) {
    if (shadow.cells) munmap(shadow.cells, shadow.size);
    shadow = {};
}

bool reserve(Shadow& shadow, size_t cells) {
    const size_t size = cells * sizeof(Cell);
    if (size <= shadow.size) return true;
    release(shadow);
    void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return false;
    shadow = {static_cast<Cell*>(mapped), size};
    return true;
}

// ---- bounds ----

[[noreturn]] void out_of_bounds(const char* what, size_t size, long offset, const char* of, size_t has,
                                uintptr_t caller) {
    report(OUT_OF_BOUNDS, caller, 0, "%s of %zu bytes at byte %ld of %s, which has %zu", what, size, offset, of, has);
    abandon_launch();
}

[[noreturn]] __attribute__((noinline)) void out_of_region(const char* what, size_t size, uintptr_t address,
                                                          const Region& region, uintptr_t caller) {
    char of[24] = "the kernel's heap";
    if (region.argument == VARIABLES) snprintf(of, sizeof of, "its variables");
    if (region.buffer) snprintf(of, sizeof of, "argument %d", region.argument);
    out_of_bounds(what, size, static_cast<long>(address - region.start), of, region.size, caller);
}

const Region* nearest_region(uintptr_t address) {
    const Region* nearest = nullptr;
    uintptr_t least = uintptr_t{1} << 30; // further than this from every array, the address is reported as wild
    for (int i = 0; i < region_count; ++i) {
        const Region& region = regions[i];
        if (region.argument == VARIABLES) continue;
        const uintptr_t distance = address < region.start ? region.start - address : address - region.start - region.size;
        if (distance < least) {
            least = distance;
            nearest = &region;
        }
    }
    return nearest;
}

// An access beyond the end of a variable is in the gap after it.
__attribute__((noinline)) void check_variable(const char* what, size_t size, uintptr_t address, uintptr_t caller) {
    const Launch& launch = state.launch;
    const uintptr_t at = address - state.image;
    int low = 0, high = launch.variable_count; // of the first variable that begins after it
    while (low < high) {
        const int middle = (low + high) / 2;
        if (launch.variables[middle].start <= at)
            low = middle + 1;
        else
            high = middle;
    }
    for (int i = low - 1; i >= 0 && i >= low - 4; --i) { // aliases have the same start
        const Variable& variable = launch.variables[i];
        if (at + size <= variable.start + variable.size) return;
    }
    const Variable* variable = nullptr;
    uintptr_t distance = VARIABLE_GAP_BYTES;
    for (int i = low ? low - 1 : 0; i <= low && i < launch.variable_count; ++i) { // the variables before and after it
        const Variable& near = launch.variables[i];
        const uintptr_t from = near.start > at ? near.start - at : at > near.start + near.size ? at - near.start - near.size : 0;
        if (from < distance) variable = &near;
        distance = from < distance ? from : distance;
    }
    if (!variable) return;
    char of[80];
    snprintf(of, sizeof of, "variable %s", variable->name);
    out_of_bounds(what, size, static_cast<long>(at - variable->start), of, variable->size, caller);
}

} // namespace

__attribute__((noinline)) void outside(const char* what, uintptr_t address, size_t size, uintptr_t caller) {
    if (const Region* region = nearest_region(address)) out_of_region(what, size, address, *region, caller);
    const uintptr_t behind = address - state.shared - state.shared_size;
    if (behind < (1u << 20) || state.shared - address < (1u << 20))
        out_of_bounds(what, size, static_cast<long>(address - state.shared), "shared memory",
                      state.dynamic_shared - state.shared + state.launch.shared_bytes, caller);
    report(OUT_OF_BOUNDS, caller, 0, "%s of %zu bytes at an address outside all memory (%#lx)", what, size,
           static_cast<unsigned long>(address));
    abandon_launch();
}

namespace {

// ---- accesses ----

__attribute__((noinline)) void watched_write(const Region& region, uintptr_t address, size_t size, uintptr_t caller) {
    for (int i = 0; i < state.constant_count && !region.buffer; ++i) {
        if (address - state.constants[i].start >= state.constants[i].size) continue;
        report(CONST_WRITE, caller, 0, "write to a __constant__ variable");
        abandon_launch();
    }
    if (!region.buffer) return;
    const Buffer& buffer = *region.buffer;
    if (!buffer.writable) {
        report(CONST_WRITE, caller, 0, "write to argument %d, which is an input or a pointer to const",
               region.argument);
        abandon_launch();
    }
    look_at_later({address, size, 0, caller, WRITE_AFTER_WRITE, GLOBAL, address - region.start, {}, NO_FENCE, 0,
                   buffer.floating_size, buffer.not_finite});
}

// Called when the budget seems spent: a write is to be checked, or accesses are traced.
__attribute__((noinline)) void access_beside(Manner manner, uintptr_t address, size_t size, uintptr_t caller) {
    budget_low(caller);
    const Launch& launch = state.launch;
    const uintptr_t offset = address - state.shared;
    if (!launch.trace || offset >= state.shared_size || peakgate_block_x != launch.trace_block[0] ||
        peakgate_block_y != launch.trace_block[1] || peakgate_block_z != launch.trace_block[2])
        return;
    for (int i = 0; i < launch.guard_count; ++i)
        if (offset == launch.guards[i]) return;
    const uint64_t at = (*launch.traced)++;
    if (at >= launch.trace_room) return;
    constexpr uint32_t manners[] = {0, 1, 3, 5, 2, 0, 1}; // by `Manner`
    const bool dynamic = address >= state.dynamic_shared;
    launch.trace[at] = {state.epoch,
                        static_cast<uint32_t>(state.current),
                        static_cast<uint32_t>(dynamic ? address - state.dynamic_shared : offset),
                        static_cast<uint32_t>(size),
                        static_cast<uint32_t>(caller - state.image),
                        manners[manner] | (dynamic ? 8u : 0u)};
}

[[noreturn]] __attribute__((noinline)) void other_local(const char* what, uintptr_t address, size_t size, uintptr_t caller) {
    for (int i = 0; i < state.thread_count; ++i) {
        const Thread& thread = state.threads[i];
        if (thread.status == NEW || thread.status == DONE || static_cast<uintptr_t>(thread.stack) != stack_of(address)) continue;
        report(OUT_OF_BOUNDS, caller, 0, "%s of %zu bytes in the local memory of another thread", what, size);
        abandon_launch();
    }
    outside(what, address, size, caller); // a stray address that happens to be there
}

// Local memory lives as long as its function, and is its thread's own. `frame` is the end of the frames in use.
inline void check_local(const char* what, uintptr_t address, size_t size, bool writes, uintptr_t frame, uintptr_t caller) {
    if (__builtin_expect(stack_of(address) != stack_of(frame), 0)) other_local(what, address, size, caller);
    if (__builtin_expect(address < frame, 0)) {
        report(DANGLING_POINTER, caller, 0, "%s of %zu bytes through a pointer to a local variable of a function that has returned",
               what, size);
        abandon_launch();
    }
    if (__builtin_expect(state.agents, 0)) check_sums(address, size, writes, caller);
}

// Checks an access to another block's shared memory; false if it is none.
__attribute__((noinline)) bool access_in_cluster(Manner manner, uintptr_t address, size_t size, uintptr_t caller) {
    const int rank = rank_reached(address);
    if (rank < 0) return false;
    const Block& block = visit(rank, caller);
    const uintptr_t offset = address - reinterpret_cast<uintptr_t>(window_of(block));
    const uintptr_t in_dynamic = offset - (state.dynamic_shared - state.shared);
    if (in_dynamic < PEAKGATE_MAX_DYNAMIC_SHARED && in_dynamic + size > state.launch.shared_bytes)
        out_of_bounds(is_read(manner) ? "read" : "write", size, static_cast<long>(in_dynamic), "dynamic shared memory of another block",
                      state.launch.shared_bytes, caller);
    note(manner, block.shadow, offset, size, SHARED, caller);
    if (manner == PLAIN_WRITE) ++state.progress;
    return true;
}

// Inlined three times: for plain reads, for plain writes, to which the hooks jump, and for everything else.
__attribute__((always_inline)) inline void access_as(Manner manner, uintptr_t address, size_t size, uintptr_t caller) {
    const char* const what = is_read(manner) ? "read" : "write";
    if (!state.checking) return; // the launcher's code in the kernel's image
    if (__builtin_expect(--state.budget_left < 0, 0)) access_beside(manner, address, size, caller);
    if (!is_read(manner)) {
        written_at = address;
        written_size = manner == ASYNC_ISSUE ? 0 : size; // its value is written at the wait
    }

    const uintptr_t in_shared = address - state.shared;
    if (in_shared < state.shared_size) {
        const uintptr_t in_dynamic = address - state.dynamic_shared;
        if (in_dynamic < PEAKGATE_MAX_DYNAMIC_SHARED && in_dynamic + size > state.launch.shared_bytes)
            out_of_bounds(what, size, static_cast<long>(in_dynamic), "dynamic shared memory",
                          state.launch.shared_bytes, caller);
        note(manner, shared_cells, in_shared, size, SHARED, caller);
        return;
    }
    if (__builtin_expect(state.cluster != nullptr, 0) && access_in_cluster(manner, address, size, caller)) return;
    if (address - state.stacks < state.stacks_size) {
        check_local(what, address, size, !is_read(manner), reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa()), caller);
        return;
    }
    for (int tried = 0, i = last_region; tried < region_count; ++tried, i = i + 1 == region_count ? 0 : i + 1) {
        const Region& region = regions[i];
        const uintptr_t offset = address - region.start;
        if (offset >= region.size) continue;
        last_region = i;
        if (offset + size > region.size) out_of_region(what, size, address, region, caller);
        if (__builtin_expect(region.argument == VARIABLES, 0)) check_variable(what, size, address, caller);
        if (!is_read(manner) && region.watched) watched_write(region, address, size, caller);
        if (region.cells) note(manner, region.cells, offset, size, region.space, caller);
        if (manner == PLAIN_WRITE) ++state.progress;
        return;
    }
    if (address - state.image < state.image_size) return; // constants
    outside(what, address, size, caller);
}

__attribute__((noinline)) void read(uintptr_t address, size_t size, uintptr_t caller) {
    access_as(PLAIN_READ, address, size, caller);
}
__attribute__((noinline)) void write(uintptr_t address, size_t size, uintptr_t caller) {
    access_as(PLAIN_WRITE, address, size, caller);
}
__attribute__((noinline)) void access(Manner manner, uintptr_t address, size_t size, uintptr_t caller) {
    access_as(manner, address, size, caller);
}

bool address_is_private(uintptr_t address) { return address - state.stacks < state.stacks_size; }

void check_aligned(uintptr_t address, size_t size, uintptr_t caller) {
    if ((address & (size - 1)) == 0) return; // a power of two
    report(MISALIGNED, caller, 0, "atomic of %zu bytes at an address that is not a multiple of them", size);
    abandon_launch();
}

void volatile_access(Manner manner, uintptr_t address, size_t size, uintptr_t caller) {
    if (!state.checking || address_is_private(address)) return;
    const bool loads = is_read(manner);
    if (!loads) current_thread().has_stored = true; // so that others may run between an earlier load and this store
    poll(caller);
    state.scope = PEAKGATE_DEVICE;
    access(manner, address, size, caller);
    polled(address, size, loads, !loads);
    strong_access(address, loads, !loads, false, PEAKGATE_RELAXED, PEAKGATE_DEVICE);
}

} // namespace

void end_checks() {
    for (int i = 0; i < state.launch.buffer_count; ++i) {
        Buffer& buffer = state.launch.buffers[i];
        if (!buffer.is_output || !regions[i].cells) continue;
        for (uint64_t byte = 0; byte < buffer.size; ++byte) {
            const uint8_t initialised = initialised_bytes(regions[i].cells[byte / 4].write, OUTPUT);
            if (byte % 4 == 0 && initialised == INITIALISED && buffer.size - byte >= 4) {
                byte += 3;
                continue;
            }
            if (initialised >> byte % 4 & 1) continue;
            if (buffer.unwritten++ == 0) buffer.first_unwritten = byte;
        }
    }
}

uintptr_t word_of(const Cell* cell) {
    if (shared_cells && cell >= shared_cells && cell <= shared_cells + state.shared_size / 4)
        return state.shared + static_cast<uintptr_t>(cell - shared_cells) * 4;
    if (const uintptr_t word = state.cluster ? word_in_cluster(cell) : 0) return word;
    for (int i = 0; i < region_count; ++i) {
        const Region& region = regions[i];
        if (region.cells && cell >= region.cells && cell <= region.cells + region.size / 4)
            return region.start + static_cast<uintptr_t>(cell - region.cells) * 4;
    }
    return 0;
}

Cell* cell_of(uintptr_t address) {
    const Place place = place_in_cluster(address);
    if (place.address - state.shared < state.shared_size) return place.block->shadow + (place.address - state.shared) / 4;
    for (int i = 0; i < region_count; ++i) {
        const Region& region = regions[i];
        if (region.cells && address - region.start < region.size) return region.cells + (address - region.start) / 4;
    }
    return nullptr;
}

void initialise_guards() {
    for (int i = 0; i < state.launch.guard_count; ++i)
        shared_cells[state.launch.guards[i] / 4].write = {state.epoch, 0, 0, 0, 0, INITIALISED};
    for (int i = 0; i < state.launch.shared_array_count; ++i) {
        const Variable& array = state.launch.shared_arrays[i];
        const uint64_t first = (array.start + array.size + 3) / 4;
        const bool is_last = i + 1 == state.launch.shared_array_count;
        const uint64_t end = is_last ? first + VARIABLE_GAP_BYTES / 4 : state.launch.shared_arrays[i + 1].start / 4;
        for (uint64_t word = first; word < end && word < first + VARIABLE_GAP_BYTES / 4 && word < state.shared_size / 4; ++word)
            shared_cells[word].write = {state.epoch, ~0u, BEHIND_ARRAY, MAX_THREADS, INITIALISED, INITIALISED};
    }
}

void behind_array(bool reads, uintptr_t offset, uintptr_t caller) {
    const Variable* array = nullptr;
    for (int i = 0; i < state.launch.shared_array_count && state.launch.shared_arrays[i].start <= offset; ++i)
        array = &state.launch.shared_arrays[i];
    report(OUT_OF_BOUNDS, caller, 0, "%s at byte %lu of shared array %s, which has %lu", reads ? "read" : "write",
           static_cast<unsigned long>(offset - array->start), array->name, static_cast<unsigned long>(array->size));
    abandon_launch();
}

bool use_shadow_of(Block& block) {
    const size_t size = (state.shared_size / 4 + 1) * sizeof(Cell);
    if (block.shadow && (block.shadow_size < size || block.shadow_since != shadows_since)) {
        munmap(block.shadow, block.shadow_size);
        block.shadow = nullptr;
    }
    if (!block.shadow) {
        void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) return false;
        block.shadow = static_cast<Cell*>(mapped);
        block.shadow_size = size;
        block.shadow_since = shadows_since;
    }
    shared_cells = block.shadow;
    return true;
}

bool begin_checks() {
    region_count = 0;
    forget_writes();
    forget_readers();
    forget_untested_reads();
    last_region = 0;
    if (state.last_epoch > LAST_EPOCH) {
        ++shadows_since;
        release(global_shadow);
        release(variable_shadow);
        release(heap_shadow);
        state.last_epoch = 0;
    }
    state.launch_since = state.ordered_epoch = state.epoch = ++state.last_epoch;
    size_t cells = 0;
    for (int i = 0; i < state.launch.buffer_count; ++i) {
        const Buffer& buffer = state.launch.buffers[i];
        if (buffer.writable) cells += buffer.size / 4 + 1;
    }
    if (!reserve(global_shadow, cells)) return false;
    Cell* next = global_shadow.cells;
    for (int i = 0; i < state.launch.buffer_count; ++i) {
        const Buffer& buffer = state.launch.buffers[i];
        const bool watched = !buffer.writable || buffer.floating_size;
        regions[region_count++] = {reinterpret_cast<uintptr_t>(buffer.device), buffer.size, buffer.argument, watched,
                                   buffer.is_output ? OUTPUT : GLOBAL, buffer.writable ? next : nullptr, &buffer};
        if (buffer.writable) next += buffer.size / 4 + 1;
    }
    if (!reserve(variable_shadow, state.data_size / 4 + 1)) return false;
    regions[region_count++] = {state.data, state.data_size, VARIABLES, state.constant_count > 0, GLOBAL, variable_shadow.cells, nullptr};
    return true;
}

void check_heap(uintptr_t start, size_t used) {
    if (!reserve(heap_shadow, HEAP_BYTES / 4)) return;
    const int place = state.launch.buffer_count + 1;
    regions[place] = {start, used, HEAP, false, OUTPUT, heap_shadow.cells, nullptr};
    region_count = place + 1;
}

void check_read(const void* address, size_t size, uintptr_t caller) {
    if (size) read(reinterpret_cast<uintptr_t>(address), size, caller);
}

// Reports a read through a cache that need not see the writes of the same launch.
static void check_unwritten(const char* how, const void* address, size_t size, uintptr_t caller) {
    if (!state.checking) return;
    for (int i = 0; i < region_count; ++i) {
        const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - regions[i].start;
        if (offset >= regions[i].size || !regions[i].cells) continue;
        for (uintptr_t word = offset / 4; word <= (offset + size - 1) / 4; ++word) {
            const Access& write = regions[i].cells[word].write;
            if (write.epoch < state.launch_since || !ordered(write, regions[i].space)) continue; // an ordinary race
            report(GLOBAL_RACE, caller, state.image + write.address,
                   "%s of argument %d (byte %lu) that this launch has written: such reads need not see the writes of their "
                   "own launch",
                   how, regions[i].argument, static_cast<unsigned long>(4 * word));
            return;
        }
    }
}

void check_cached_read(const void* address, size_t size, uintptr_t caller) {
    check_read(address, size, caller);
    check_unwritten("texture or surface read", address, size, caller);
}

void check_update(void* address, size_t size, uintptr_t caller) {
    state.scope = PEAKGATE_DEVICE;
    access(ATOMIC_UPDATE, reinterpret_cast<uintptr_t>(address), size, caller);
}

void check_write(void* address, size_t size, uintptr_t caller) {
    if (size) write(reinterpret_cast<uintptr_t>(address), size, caller);
}

void check_async_source(const void* source, size_t size, uintptr_t caller) {
    constexpr const char* what = "asynchronous read";
    if (!state.checking || !size) return;
    const auto address = reinterpret_cast<uintptr_t>(source);
    for (int i = 0; i < region_count; ++i) {
        if (address - regions[i].start >= regions[i].size) continue;
        if (address - regions[i].start + size > regions[i].size) out_of_region(what, size, address, regions[i], caller);
        return;
    }
    if (address - state.shared < state.shared_size || address - state.stacks < state.stacks_size) {
        report(OUT_OF_BOUNDS, caller, 0, "asynchronous copy from memory that is not global");
        abandon_launch();
    }
    if (address - state.image >= state.image_size) outside(what, address, size, caller);
}

void check_async_destination(void* destination, size_t size, uintptr_t caller) {
    const auto address = reinterpret_cast<uintptr_t>(destination);
    if (state.checking && place_in_cluster(address).address - state.shared >= state.shared_size)
        outside("asynchronous copy to shared memory", address, size, caller);
    access(ASYNC_ISSUE, address, size, caller);
}

void check_barrier_object(const void* address, uintptr_t caller) {
    const auto at = reinterpret_cast<uintptr_t>(address);
    check_aligned(at, 8, caller);
    state.scope = state.cluster ? PEAKGATE_DEVICE : PEAKGATE_BLOCK;
    access(ATOMIC_UPDATE, at, 8, caller);
}

static void check_copied(const void* source, size_t bytes, uintptr_t caller) {
    copies_whole = true;
    check_read(source, bytes, caller);
    copies_whole = false;
}

static void* copied(void* destination, const void* source, size_t bytes, uintptr_t caller) {
    check_copied(source, bytes, caller);
    check_write(destination, bytes, caller);
    return memmove(destination, source, bytes);
}

static void* filled(void* destination, int value, size_t bytes, uintptr_t caller) {
    check_write(destination, bytes, caller);
    return memset(destination, value, bytes);
}

} // namespace peakgate

using namespace peakgate;

// The value that an atomic updates must have been written.
static void check_updated(uintptr_t offset, size_t size, uintptr_t caller) {
    const uintptr_t end = offset + size;
    for (; offset < end; offset = (offset / 4 + 1) * 4) {
        const int last = end - offset / 4 * 4 < 4 ? static_cast<int>(end - offset / 4 * 4) : 4;
        const int read = ((1 << last) - 1) & ~((1 << offset % 4) - 1), there = initialised_bytes(shared_cells[offset / 4].write, SHARED);
        if (shared_cells[offset / 4].write.address != BEHIND_ARRAY && (read & ~there)) report_uninitialised(SHARED, offset, caller, read, there, false);
    }
}

void peakgate_strong(const void* address, int size_, int what, int order, int scope, const void* expected,
                     const void* caller) {
    const auto at = reinterpret_cast<uintptr_t>(address), called_at = reinterpret_cast<uintptr_t>(caller);
    const auto size = static_cast<size_t>(size_);
    if (!state.checking) return;
    check_aligned(at, size, called_at);
    bool stores = what != PEAKGATE_LOAD;
    const bool loads = what != PEAKGATE_STORE;
    if (scope == PEAKGATE_THREAD || address_is_private(at)) {
        if (loads) read(at, size, called_at);
        if (stores) write(at, size, called_at);
        return;
    }
    if (scope == PEAKGATE_CLUSTER && !state.cluster) scope = PEAKGATE_BLOCK;
    if (expected) tested(at, size, expected);
    if (stores && current_thread().polled == at) current_thread().has_stored = true; // others may run between the two
    poll(called_at);
    state.scope = scope;
    if (expected || !stores) access(ATOMIC_READ, at, size, called_at);
    if (what == PEAKGATE_UPDATE && at - state.shared < state.shared_size) check_updated(at - state.shared, size, called_at);
    if (expected) stores = memcmp(address, expected, size) == 0;
    if (stores) access(ATOMIC_UPDATE, at, size, called_at);
    polled(at, size, loads, stores);
    strong_access(at, loads, stores, expected, order, scope);
}

void peakgate_access(const void* address, size_t size, int writes, const void* caller) {
    const auto at = reinterpret_cast<uintptr_t>(address);
    if (writes)
        write(at, size, reinterpret_cast<uintptr_t>(caller));
    else
        read(at, size, reinterpret_cast<uintptr_t>(caller));
}

void peakgate_read_only(const void* address, size_t size, const void* caller) {
    check_unwritten("read-only load", address, size, reinterpret_cast<uintptr_t>(caller));
}

void peakgate_discard(void* address, size_t size, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    if (reinterpret_cast<uintptr_t>(address) % size) {
        report(MISALIGNED, called_at, 0, "discards %zu bytes that do not begin on a multiple of them", size);
        abandon_launch();
    }
    check_write(address, size, called_at);
    memset(address, 0xff, size);
    for (size_t at = 0; at < size && state.checking; at += 4) {
        Cell* cell = cell_of(reinterpret_cast<uintptr_t>(address) + at);
        if (!cell) return;
        cell->write.bytes |= DISCARDED;
        cell->write.details &= static_cast<uint8_t>(~INITIALISED);
    }
}

void peakgate_row(const void* address, size_t size, int writes, const void* caller) {
    if (reinterpret_cast<uintptr_t>(address) % size) {
        report(MISALIGNED, reinterpret_cast<uintptr_t>(caller), 0, "row of a matrix that does not begin on a multiple of %zu bytes", size);
        abandon_launch();
    }
    if (writes >= 0) peakgate_access(address, size, writes, caller);
}

void* peakgate_memcpy(void* destination, const void* source, size_t bytes) {
    return copied(destination, source, bytes, PEAKGATE_CALLER);
}

void* peakgate_memset(void* destination, int value, size_t bytes) {
    return filled(destination, value, bytes, PEAKGATE_CALLER);
}

// Called by launch.py after a launch: reports at the line that wrote it that an argument holds what nobody has set.
PEAKGATE_API void peakgate_report_unset(int argument, uint64_t byte) {
    Access write = {};
    for (int i = 0; i < region_count; ++i) {
        const Region& region = regions[i];
        if (region.buffer && region.argument == argument && region.cells) write = region.cells[byte / 4].write;
    }
    const bool known = write.epoch >= state.launch_since && write.thread < MAX_THREADS;
    Report* noted = report(UNSET_VALUE, known ? state.image + write.address : 0, 0,
                           "argument %d is given a value that nobody has set (byte %llu): of a variable of a thread, of a lane "
                           "that does not take part in a shuffle, or of a reduction of CUB in a thread that gets none",
                           argument, static_cast<unsigned long long>(byte));
    if (!noted || !known) return;
    noted->thread = state.threads[write.thread].index;
    noted->block = index_of_block(block_of(write.epoch));
}

// ---- the hooks of -fsanitize=thread ----

#define PEAKGATE_HOOKS(size)                                                                                           \
    PEAKGATE_API void __tsan_read##size(uintptr_t p) { read(p, size, PEAKGATE_CALLER); }                 \
    PEAKGATE_API void __tsan_write##size(uintptr_t p) { write(p, size, PEAKGATE_CALLER); }               \
    PEAKGATE_API void __tsan_unaligned_read##size(uintptr_t p) { read(p, size, PEAKGATE_CALLER); }       \
    PEAKGATE_API void __tsan_unaligned_write##size(uintptr_t p) { write(p, size, PEAKGATE_CALLER); }     \
    PEAKGATE_API void __tsan_volatile_read##size(uintptr_t p) {                                                        \
        volatile_access(VOLATILE_LOAD, p, size, PEAKGATE_CALLER);                                                      \
    }                                                                                                                  \
    PEAKGATE_API void __tsan_volatile_write##size(uintptr_t p) {                                                       \
        volatile_access(VOLATILE_STORE, p, size, PEAKGATE_CALLER);                                                     \
    }                                                                                                                  \
    PEAKGATE_API void __tsan_unaligned_volatile_read##size(uintptr_t p) {                                              \
        volatile_access(VOLATILE_LOAD, p, size, PEAKGATE_CALLER);                                                      \
    }                                                                                                                  \
    PEAKGATE_API void __tsan_unaligned_volatile_write##size(uintptr_t p) {                                             \
        volatile_access(VOLATILE_STORE, p, size, PEAKGATE_CALLER);                                                     \
    }                                                                                                                  \
    PEAKGATE_API void __tsan_read_write##size(uintptr_t p) {                                                           \
        read(p, size, PEAKGATE_CALLER);                                                                  \
        write(p, size, PEAKGATE_CALLER);                                                                 \
    }                                                                                                                  \
    PEAKGATE_API void __tsan_unaligned_read_write##size(uintptr_t p) {                                                 \
        read(p, size, PEAKGATE_CALLER);                                                                  \
        write(p, size, PEAKGATE_CALLER);                                                                 \
    }
PEAKGATE_HOOKS(1)
PEAKGATE_HOOKS(2)
PEAKGATE_HOOKS(4)
PEAKGATE_HOOKS(8)
PEAKGATE_HOOKS(16)

PEAKGATE_API void __tsan_read_range(void* p, size_t size) { check_copied(p, size, PEAKGATE_CALLER); }
PEAKGATE_API void __tsan_write_range(void* p, size_t size) { check_write(p, size, PEAKGATE_CALLER); }
PEAKGATE_API void* __tsan_memcpy(void* destination, const void* source, size_t bytes) {
    return copied(destination, source, bytes, PEAKGATE_CALLER);
}
PEAKGATE_API void* __tsan_memmove(void* destination, const void* source, size_t bytes) {
    return copied(destination, source, bytes, PEAKGATE_CALLER);
}
PEAKGATE_API void* __tsan_memset(void* destination, int value, size_t bytes) {
    return filled(destination, value, bytes, PEAKGATE_CALLER);
}
PEAKGATE_API void __tsan_vptr_read(void** p) { check_read(p, sizeof *p, PEAKGATE_CALLER); }
PEAKGATE_API void __tsan_vptr_update(void** p, void*) { check_write(p, sizeof *p, PEAKGATE_CALLER); }
PEAKGATE_API void __tsan_init() {}
PEAKGATE_API void __tsan_func_entry(void*) {}
PEAKGATE_API void __tsan_func_exit() {}

// ---- the hooks of -fsanitize=bounds,alignment,return ----

PEAKGATE_API void __ubsan_handle_missing_return(void*) {
    report(FAULT, PEAKGATE_CALLER, 0, "a function that returns a value ends without `return`");
    abandon_launch();
}

PEAKGATE_API void __ubsan_handle_out_of_bounds_abort(void*, uintptr_t index) {
    report(INDEX_OUT_OF_BOUNDS, PEAKGATE_CALLER, 0, "index %ld is outside the array's declared extent",
           static_cast<long>(index));
    abandon_launch();
}
// The compiler's description of an access through a pointer.
struct TypeMismatch {
    const char* file;
    uint32_t line, column;
    const void* type;
    uint8_t log_alignment, kind;
};

// nvcc aligns a thread's own arrays as the accesses to them require, the host's compilers only those of 16 bytes and
// more; for a smaller one the alignment on a GPU is unknown.
PEAKGATE_API void __ubsan_handle_type_mismatch_v1(const TypeMismatch* access, uintptr_t pointer) {
    if (pointer - state.stacks < state.stacks_size && access->log_alignment < 4) return;
    if (pointer % 16 == 0) return; // the largest alignment that an access of a GPU needs
    report(MISALIGNED, PEAKGATE_CALLER, 0, "access through a pointer not aligned to its type (%lu bytes past a multiple of 16)",
           static_cast<unsigned long>(pointer % 16));
    abandon_launch();
}
