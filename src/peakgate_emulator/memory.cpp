// The memory of a launch: stacks of its fibers, copies of the arrays for the kernel, shared variables.
#include "runtime.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace peakgate {
namespace {

constexpr size_t GUARD_BYTES = 64 << 10; // a multiple of every page size in use

size_t stacks_ready; // number of stacks that may be used

// Reserves addresses for the stacks of all threads that may be alive at once; fewer if the process may not have as
// many.
bool map_stacks() {
    if (state.stacks) return true;
    for (size_t wanted = MAX_LIVE_THREADS; wanted >= MAX_THREADS; wanted /= 2) {
        state.stacks_size = STACK_BYTES * wanted;
        void* mapped = mmap(nullptr, state.stacks_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) continue;
        state.stacks = reinterpret_cast<uintptr_t>(mapped);
        return true;
    }
    return false;
}

// Number of dynamic symbols of an image: its hash table ends with the last one.
uint32_t symbol_count(const uint32_t* hashes) {
    const uint32_t buckets = hashes[0], first = hashes[1], words = hashes[2];
    const uint32_t* bucket = hashes + 4 + words * (sizeof(ElfW(Addr)) / 4);
    const uint32_t* chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; ++i) last = bucket[i] > last ? bucket[i] : last;
    if (last < first) return first;
    while (!(chain[last - first] & 1)) ++last;
    return last + 1;
}

// The image's __constant__ variables, except static ones, are its only protected objects.
void find_constants(const ElfW(Dyn)* dynamic) {
    const ElfW(Sym)* symbols = nullptr;
    const uint32_t* hashes = nullptr;
    state.constant_count = 0;
    for (; dynamic->d_tag != DT_NULL; ++dynamic) {
        if (dynamic->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_GNU_HASH) hashes = reinterpret_cast<const uint32_t*>(dynamic->d_un.d_ptr);
    }
    if (!symbols || !hashes) return;
    const uint32_t count = symbol_count(hashes);
    for (uint32_t i = 0; i < count && state.constant_count < MAX_CONSTANTS; ++i) {
        const ElfW(Sym)& symbol = symbols[i];
        if ((symbol.st_info & 0xf) != STT_OBJECT || symbol.st_shndx == SHN_UNDEF || (symbol.st_other & 3) != STV_PROTECTED)
            continue;
        state.constants[state.constant_count++] = {state.image + symbol.st_value, symbol.st_size};
    }
}

// Finds the kernel's image and this host thread's copy of its thread-local segment.
int find_image(dl_phdr_info* image, size_t, void* inside) {
    const auto wanted = reinterpret_cast<uintptr_t>(inside);
    bool found = false;
    const ElfW(Dyn)* dynamic = nullptr;
    uintptr_t end = 0, shared_size = 0, data = 0, data_end = 0;
    for (int i = 0; i < image->dlpi_phnum; ++i) {
        const auto& segment = image->dlpi_phdr[i];
        if (segment.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(image->dlpi_addr + segment.p_vaddr);
        if (segment.p_type == PT_TLS) shared_size = segment.p_memsz;
        if (segment.p_type != PT_LOAD) continue;
        if (segment.p_vaddr + segment.p_memsz > end) end = segment.p_vaddr + segment.p_memsz;
        if (segment.p_flags & PF_W) {
            if (!data_end) data = segment.p_vaddr;
            data_end = segment.p_vaddr + segment.p_memsz;
        }
        found |= wanted - (image->dlpi_addr + segment.p_vaddr) < segment.p_memsz;
    }
    if (!found) return 0;
    state.image = image->dlpi_addr;
    state.image_size = end;
    state.data = image->dlpi_addr + data;
    state.data_size = data_end - data;
    if (dynamic) find_constants(dynamic);
    state.shared = reinterpret_cast<uintptr_t>(image->dlpi_tls_data) + PEAKGATE_RESERVED_SHARED;
    state.shared_size = shared_size - PEAKGATE_RESERVED_SHARED;
    return 1;
}

// Copies the arrays for the kernel: each is aligned to 256 bytes, as in device memory, and is followed by inaccessible
// memory.
constexpr size_t GAP_BYTES = 16 << 20;
constexpr uintptr_t DEVICE_ALIGNMENT = 256;

struct Mapping {
    void* start;
    size_t size;
};
Mapping mappings[MAX_BUFFERS];

bool map_buffer(Buffer& buffer, Mapping& mapping) {
    const size_t body = (buffer.size + GUARD_BYTES) & ~(GUARD_BYTES - 1);
    mapping.size = GAP_BYTES + body + GAP_BYTES;
    mapping.start = mmap(nullptr, mapping.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping.start == MAP_FAILED) {
        mapping.start = nullptr;
        return false;
    }
    char* usable = static_cast<char*>(mapping.start) + GAP_BYTES;
    if (mprotect(usable, body, PROT_READ | PROT_WRITE)) return false;
    const auto end = reinterpret_cast<uintptr_t>(usable) + body;
    buffer.device = reinterpret_cast<void*>((end - buffer.size) & ~(DEVICE_ALIGNMENT - 1));
    memcpy(buffer.device, buffer.host, buffer.size);
    return true;
}

} // namespace

bool ready_stacks(size_t first, size_t count) {
    const size_t end = first + count;
    if (end <= stacks_ready) return true;
    if (end * STACK_BYTES > state.stacks_size) return false;
    for (; stacks_ready < end; ++stacks_ready) {
        char* usable = reinterpret_cast<char*>(state.stacks) + STACK_BYTES * stacks_ready + GUARD_BYTES;
        if (mprotect(usable, STACK_BYTES - GUARD_BYTES, PROT_READ | PROT_WRITE)) return false;
    }
    return true;
}

bool map_launch() {
    // Asking for the address makes the C library allocate this host thread's copy of the thread-local segment.
    state.dynamic_shared = reinterpret_cast<uintptr_t>(state.launch.dynamic_shared());
    dl_iterate_phdr(find_image, reinterpret_cast<void*>(state.launch.call));
    memset(mappings, 0, sizeof mappings);
    if (!map_stacks()) return false;
    for (int i = 0; i < state.launch.buffer_count; ++i) {
        if (!map_buffer(state.launch.buffers[i], mappings[i])) return false;
    }
    for (int i = 0; i < state.launch.slot_count; ++i) {
        const Slot& slot = state.launch.slots[i];
        char* start = slot.holder ? static_cast<char*>(slot.holder->device) : slot.value;
        memcpy(start + slot.offset, &slot.target->device, sizeof(void*));
    }
    return true;
}

void unmap_launch(bool copy_back) {
    for (int i = 0; copy_back && i < state.launch.slot_count; ++i) { // addresses are invalid after the launch
        const Slot& slot = state.launch.slots[i];
        if (!slot.holder) continue;
        memcpy(static_cast<char*>(slot.holder->device) + slot.offset, static_cast<char*>(slot.holder->host) + slot.offset,
               sizeof(void*));
    }
    for (int i = 0; i < state.launch.buffer_count; ++i) {
        const Buffer& buffer = state.launch.buffers[i];
        if (copy_back && buffer.writable) memcpy(buffer.host, buffer.device, buffer.size);
        if (mappings[i].start) munmap(mappings[i].start, mappings[i].size);
    }
}

// Tops are staggered, or the ends of all stacks would compete for the same few cache sets.
char* stack_top(int stack) {
    const size_t stagger = static_cast<size_t>(stack % 48) * 320;
    const uintptr_t top = state.stacks + STACK_BYTES * static_cast<size_t>(stack + 1) - stagger;
    return reinterpret_cast<char*>(top & ~static_cast<uintptr_t>(63));
}

namespace {

char* heap;
size_t heap_used;

} // namespace

void begin_heap() {
    if (heap && heap_used) munmap(heap, HEAP_BYTES);
    if (heap_used) heap = nullptr;
    heap_used = 0;
}

namespace {

// The parts of the shared memory segment that a launch uses: before the dynamic array, its requested size, and after
// it.
struct Part {
    char* start;
    size_t size;
};
struct Parts {
    Part part[3];
};

Parts shared_parts() {
    char* shared = reinterpret_cast<char*>(state.shared);
    const size_t before = state.dynamic_shared - state.shared;
    const size_t behind = before + PEAKGATE_MAX_DYNAMIC_SHARED;
    return {{{shared, before}, {shared + before, state.launch.shared_bytes}, {shared + behind, state.shared_size - behind}}};
}

} // namespace

// Shared memory is filled with NaNs, which are -1 as integers, when a block begins.
void poison_shared() {
    const Parts parts = shared_parts();
    for (const Part& part : parts.part) memset(part.start, 0xff, part.size);
    initialise_guards(); // with these values constructors do not run, as on a GPU
}

char* shared_copy(char* from, size_t& room) {
    constexpr uintptr_t ALIGNMENT = 1024; // the largest alignment that kernels rely on, as in swizzles
    if (from && state.shared_size <= room && reinterpret_cast<uintptr_t>(from) % ALIGNMENT == state.shared % ALIGNMENT) return from;
    if (from) munmap(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(from) & ~(ALIGNMENT - 1)), room + ALIGNMENT);
    room = state.shared_size;
    void* mapped = mmap(nullptr, room + ALIGNMENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return mapped == MAP_FAILED ? nullptr : static_cast<char*>(mapped) + state.shared % ALIGNMENT;
}

namespace {

char* place_to_keep(const Block& block) { return block.cluster ? window_of(block) : block.shared; }

} // namespace

bool save_shared(Block& block) {
    if (!block.cluster) block.shared = shared_copy(block.shared, block.shared_room);
    char* kept = place_to_keep(block);
    if (!kept) return false;
    for (const Part& part : shared_parts().part) {
        if (part.size) memcpy(kept + (part.start - reinterpret_cast<char*>(state.shared)), part.start, part.size);
    }
    return true;
}

void load_shared(const Block& block) {
    const char* kept = place_to_keep(block);
    for (const Part& part : shared_parts().part) {
        if (part.size) memcpy(part.start, kept + (part.start - reinterpret_cast<char*>(state.shared)), part.size);
    }
}

} // namespace peakgate

using namespace peakgate;

// Memory is not reused within a launch, so an access after free() is in memory that nothing else uses.
void* peakgate_malloc(size_t bytes) {
    if (!heap) {
        void* mapped = mmap(nullptr, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) return nullptr;
        heap = static_cast<char*>(mapped);
    }
    const size_t taken = (bytes + 15) & ~static_cast<size_t>(15);
    if (!bytes || bytes > HEAP_BYTES || heap_used + taken > HEAP_BYTES) return nullptr;
    char* given = heap + heap_used;
    heap_used += taken;
    check_heap(reinterpret_cast<uintptr_t>(heap), heap_used);
    return given;
}

void peakgate_free(void* address) {
    if (!address || static_cast<size_t>(static_cast<char*>(address) - heap) < heap_used) return;
    report(OUT_OF_BOUNDS, PEAKGATE_CALLER, 0, "free of an address that malloc did not return");
    abandon_launch();
}
