// Checks every memory access of a kernel built with -fsanitize=thread,bounds,alignment. The sanitizers' own runtimes are
// not linked: the hooks their instrumentation calls are answered here, inside the process, so that a defect can be reported
// to the host instead of ending it.
#include "shadow.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

namespace peakgate {
namespace {

struct Region {
    uintptr_t start, size;
    int argument;
    bool writable;
    Cell* cells; // null where nothing is written, so nothing can race
};

Region regions[MAX_BUFFERS];
int region_count;
int last_region;

// Epochs do not repeat, so the shadow of an earlier launch needs no clearing: it is merely old. Only after LAST_EPOCH they
// begin anew, with new shadow memory.
constexpr uint32_t LAST_EPOCH = 1u << 31;

struct Shadow {
    Cell* cells;
    size_t size;
};
Shadow shared_shadow, global_shadow;

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
    char of[24];
    snprintf(of, sizeof of, "argument %d", region.argument);
    out_of_bounds(what, size, static_cast<long>(address - region.start), of, region.size, caller);
}

const Region* nearest_region(uintptr_t address) {
    const Region* nearest = nullptr;
    uintptr_t least = uintptr_t{1} << 30; // farther than this from every array, the address is simply wild
    for (int i = 0; i < region_count; ++i) {
        const Region& region = regions[i];
        const uintptr_t distance = address < region.start ? region.start - address : address - region.start - region.size;
        if (distance < least) {
            least = distance;
            nearest = &region;
        }
    }
    return nearest;
}

[[noreturn]] __attribute__((noinline)) void outside(const char* what, uintptr_t address, size_t size, uintptr_t caller) {
    if (const Region* region = nearest_region(address)) out_of_region(what, size, address, *region, caller);
    const uintptr_t behind = address - state.shared - state.shared_size;
    if (behind < (1u << 20) || state.shared - address < (1u << 20))
        out_of_bounds(what, size, static_cast<long>(address - state.shared), "shared memory",
                      state.dynamic_shared - state.shared + state.launch.shared_bytes, caller);
    report(OUT_OF_BOUNDS, caller, 0, "%s of %zu bytes at an address that belongs to nothing (%#lx)", what, size,
           static_cast<unsigned long>(address));
    abandon_launch();
}

[[noreturn]] __attribute__((noinline)) void const_write(const Region& region, uintptr_t caller) {
    report(CONST_WRITE, caller, 0, "write to argument %d, which the kernel takes as a pointer to const", region.argument);
    abandon_launch();
}

template <Manner manner> inline void access(uintptr_t address, size_t size, uintptr_t caller) {
    constexpr const char* what = manner == PLAIN_READ ? "read" : "write";
    if (!state.checking) return; // the launcher's code in the kernel's image
    spend_budget(caller);

    const uintptr_t in_shared = address - state.shared;
    if (in_shared < state.shared_size) {
        const uintptr_t in_dynamic = address - state.dynamic_shared;
        if (in_dynamic < PEAKGATE_MAX_DYNAMIC_SHARED && in_dynamic + size > state.launch.shared_bytes)
            out_of_bounds(what, size, static_cast<long>(in_dynamic), "dynamic shared memory",
                          state.launch.shared_bytes, caller);
        note<manner>(shared_shadow.cells, in_shared, size, SHARED, caller);
        return;
    }
    if (address - state.stacks < state.stacks_size) return;
    for (int tried = 0, i = last_region; tried < region_count; ++tried, i = i + 1 == region_count ? 0 : i + 1) {
        const Region& region = regions[i];
        const uintptr_t offset = address - region.start;
        if (offset >= region.size) continue;
        last_region = i;
        if (offset + size > region.size) out_of_region(what, size, address, region, caller);
        if (manner != PLAIN_READ) {
            if (!region.writable) const_write(region, caller);
            state.launch.buffers[i].written = 1;
        }
        if (region.cells) note<manner>(region.cells, offset, size, GLOBAL, caller);
        return;
    }
    if (address - state.image < state.image_size) return; // __device__ and __constant__ variables
    outside(what, address, size, caller);
}

} // namespace

bool begin_checks() {
    region_count = 0;
    last_region = 0;
    if (state.epoch > LAST_EPOCH) {
        release(shared_shadow);
        release(global_shadow);
        state.epoch = 0;
    }
    state.launch_epoch = ++state.epoch;
    if (!state.launch.checked) return true;
    size_t cells = 0;
    for (int i = 0; i < state.launch.buffer_count; ++i) {
        const Buffer& buffer = state.launch.buffers[i];
        if (buffer.writable) cells += buffer.size / 4 + 1;
    }
    if (!reserve(shared_shadow, state.shared_size / 4 + 1) || !reserve(global_shadow, cells)) return false;
    Cell* next = global_shadow.cells;
    for (int i = 0; i < state.launch.buffer_count; ++i) {
        const Buffer& buffer = state.launch.buffers[i];
        regions[region_count++] = {reinterpret_cast<uintptr_t>(buffer.device), buffer.size, buffer.argument,
                                   buffer.writable != 0, buffer.writable ? next : nullptr};
        if (buffer.writable) next += buffer.size / 4 + 1;
    }
    return true;
}

void check_read(const void* address, size_t size, uintptr_t caller) {
    if (size) access<PLAIN_READ>(reinterpret_cast<uintptr_t>(address), size, caller);
}

void check_write(void* address, size_t size, uintptr_t caller) {
    if (size) access<PLAIN_WRITE>(reinterpret_cast<uintptr_t>(address), size, caller);
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
    if (state.checking && address - state.shared >= state.shared_size)
        outside("asynchronous copy to shared memory", address, size, caller);
    access<ASYNC_ISSUE>(address, size, caller);
}

} // namespace peakgate

using namespace peakgate;

void peakgate_atomic(const void* address, int size, const void* caller) {
    const auto at = reinterpret_cast<uintptr_t>(address);
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    if (!state.checking) return;
    if (at % static_cast<uintptr_t>(size)) {
        report(MISALIGNED, called_at, 0, "atomic of %d bytes at an address that is not a multiple of them", size);
        abandon_launch();
    }
    access<ATOMIC_UPDATE>(at, static_cast<size_t>(size), called_at);
    state.acquired_epoch = state.published_epoch;
    if (state.fenced) state.published_epoch = state.epoch;
}

void* peakgate_memcpy(void* destination, const void* source, size_t bytes) {
    check_read(source, bytes, PEAKGATE_CALLER);
    check_write(destination, bytes, PEAKGATE_CALLER);
    return memmove(destination, source, bytes);
}

void* peakgate_memset(void* destination, int value, size_t bytes) {
    check_write(destination, bytes, PEAKGATE_CALLER);
    return memset(destination, value, bytes);
}

// ---- the hooks of -fsanitize=thread ----

#define PEAKGATE_HOOKS(size)                                                                                           \
    PEAKGATE_API void __tsan_read##size(uintptr_t p) { access<PLAIN_READ>(p, size, PEAKGATE_CALLER); }                 \
    PEAKGATE_API void __tsan_write##size(uintptr_t p) { access<PLAIN_WRITE>(p, size, PEAKGATE_CALLER); }               \
    PEAKGATE_API void __tsan_unaligned_read##size(uintptr_t p) { access<PLAIN_READ>(p, size, PEAKGATE_CALLER); }       \
    PEAKGATE_API void __tsan_unaligned_write##size(uintptr_t p) { access<PLAIN_WRITE>(p, size, PEAKGATE_CALLER); }     \
    PEAKGATE_API void __tsan_read_write##size(uintptr_t p) {                                                           \
        access<PLAIN_READ>(p, size, PEAKGATE_CALLER);                                                                  \
        access<PLAIN_WRITE>(p, size, PEAKGATE_CALLER);                                                                 \
    }                                                                                                                  \
    PEAKGATE_API void __tsan_unaligned_read_write##size(uintptr_t p) {                                                 \
        access<PLAIN_READ>(p, size, PEAKGATE_CALLER);                                                                  \
        access<PLAIN_WRITE>(p, size, PEAKGATE_CALLER);                                                                 \
    }
PEAKGATE_HOOKS(1)
PEAKGATE_HOOKS(2)
PEAKGATE_HOOKS(4)
PEAKGATE_HOOKS(8)
PEAKGATE_HOOKS(16)

PEAKGATE_API void __tsan_read_range(void* p, size_t size) { check_read(p, size, PEAKGATE_CALLER); }
PEAKGATE_API void __tsan_write_range(void* p, size_t size) { check_write(p, size, PEAKGATE_CALLER); }
PEAKGATE_API void* __tsan_memcpy(void* destination, const void* source, size_t bytes) {
    check_read(source, bytes, PEAKGATE_CALLER);
    check_write(destination, bytes, PEAKGATE_CALLER);
    return memmove(destination, source, bytes);
}
PEAKGATE_API void* __tsan_memmove(void* destination, const void* source, size_t bytes) {
    check_read(source, bytes, PEAKGATE_CALLER);
    check_write(destination, bytes, PEAKGATE_CALLER);
    return memmove(destination, source, bytes);
}
PEAKGATE_API void* __tsan_memset(void* destination, int value, size_t bytes) {
    check_write(destination, bytes, PEAKGATE_CALLER);
    return memset(destination, value, bytes);
}
PEAKGATE_API void __tsan_init() {}
PEAKGATE_API void __tsan_func_entry(void*) {}
PEAKGATE_API void __tsan_func_exit() {}

// ---- the hooks of -fsanitize=bounds,alignment ----

PEAKGATE_API void __ubsan_handle_out_of_bounds_abort(void*, uintptr_t index) {
    report(INDEX_OUT_OF_BOUNDS, PEAKGATE_CALLER, 0, "index %ld is outside the array's declared extent",
           static_cast<long>(index));
    abandon_launch();
}
PEAKGATE_API void __ubsan_handle_type_mismatch_v1_abort(void*, uintptr_t pointer) {
    report(MISALIGNED, PEAKGATE_CALLER, 0, "access through a pointer not aligned to its type (%lu bytes past a multiple of 16)",
           static_cast<unsigned long>(pointer % 16));
    abandon_launch();
}
