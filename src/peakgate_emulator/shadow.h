// Shadow state of memory accesses, per word, from which races and reads of unwritten memory are detected.
// It is inlined into the hooks of checks.cpp.
#pragma once

#include "runtime.h"

namespace peakgate {

// Record of the last write, or of the last reads, of a 4-byte word.
struct Access {
    uint32_t epoch, stamp;
    uint32_t address; // of the code, relative to the image
    uint16_t thread;
    uint8_t bytes;   // which of the four, one bit each
    uint8_t details; // see below
};

struct Cell {
    Access write, read;
};

// Details of a write: bytes that have been written in this block; whether the last write was strong (atomic or volatile),
// for its block only, volatile, and came after a fence.
constexpr uint8_t INITIALISED = 0x0f;
constexpr uint8_t STRONG = 0x10, OF_BLOCK = 0x20, VOLATILE = 0x40, FENCED = 0x80;
// Details of reads: bytes that several threads have read since they last met, whether those are of several warps, and what
// they have in common with writes.
constexpr uint8_t SHARED_READ = 0x0f;
constexpr uint8_t SEVERAL_WARPS = 0x10;
constexpr uint8_t BY_SEVERAL = SHARED_READ | SEVERAL_WARPS;
constexpr uint8_t STRONG_READ = 0x20, READ_OF_BLOCK = 0x40, VOLATILE_READ = 0x80;
// Beside the bytes of reads: threads of earlier blocks have read the word too (readers.cpp).
constexpr uint8_t MORE_READERS = 0x80;

enum Space { SHARED, GLOBAL, OUTPUT };
enum Manner { PLAIN_READ, PLAIN_WRITE, ATOMIC_UPDATE, ASYNC_ISSUE, ATOMIC_READ, VOLATILE_LOAD, VOLATILE_STORE };

constexpr bool is_read(Manner manner) {
    return manner == PLAIN_READ || manner == ATOMIC_READ || manner == VOLATILE_LOAD;
}
constexpr bool is_strong(Manner manner) { return manner == ATOMIC_UPDATE || manner >= ATOMIC_READ; }
constexpr bool is_volatile(Manner manner) { return manner >= VOLATILE_LOAD; }

inline bool met_since(const Access& earlier) { return state.known[earlier.thread] > earlier.stamp; }

// True if an access of another block, or of this one in other circumstances, happened before (order.cpp).
bool ordered_across_blocks(const Access& earlier);
// The same of an access to shared memory of a block of the cluster.
bool ordered_in_cluster(const Access& earlier);

inline bool is_shared(Space space) { return space == SHARED; }

// Has what `earlier` notes happened before what the current thread does now?
inline bool ordered(const Access& earlier, Space space) {
    if (earlier.epoch == state.epoch) return earlier.thread == state.current || met_since(earlier);
    if (is_shared(space) && __builtin_expect(state.cluster != nullptr, 0)) return ordered_in_cluster(earlier);
    if (is_shared(space)) // no barrier waits for agents
        return earlier.thread < MAX_THREADS || earlier.epoch < state.shared_since || met_since(earlier);
    if (earlier.epoch < state.ordered_epoch) return true;
    // Of this block: a barrier came between.
    if (earlier.epoch - state.block_epoch < state.epoch - state.block_epoch) return true;
    return state.released ? ordered_across_blocks(earlier) : block_of(earlier.epoch) == state.block->number;
}

inline bool same_block(const Access& earlier, Space space) {
    return (is_shared(space) && !state.cluster) || block_of(earlier.epoch) == state.block->number;
}

// True if two strong accesses, of which one is a write, race in no order: each is in the other's scope. Volatile
// alone does not make lanes of one warp wait for one another in shared memory, as warp-synchronous code would have it.
inline bool strong_together(bool other_of_block, bool other_volatile, bool fenced, const Access& earlier, Manner manner, Space space) {
    if ((other_of_block || state.scope == PEAKGATE_BLOCK) && !same_block(earlier, space)) return false;
    return !is_shared(space) || !other_volatile || !is_volatile(manner) || fenced ||
           earlier.thread / WARP != static_cast<unsigned>(state.current) / WARP;
}

// True if a volatile access races with a strong store although both are in scope: two volatile stores do unless their values
// are the same (that shows later), a volatile store and an atomic do unless a fence makes the store a release, and a volatile
// load does where the program means it to come after the store.
inline bool volatile_race(const void* cell, const Access& store, Manner manner, bool fenced) {
    const bool other_volatile = store.details & VOLATILE;
    if (!other_volatile && !is_volatile(manner)) return false;
    if (awaited_orders(store) || has_observed(cell, store)) return false;
    if (is_read(manner)) return meant_to_follow(cell, store);
    return is_volatile(manner) && (other_volatile || !fenced);
}

// The same for reads that may be those of several threads, of which only the latest is remembered.
inline bool reads_ordered(const Access& reads, Space space) {
    if (!(reads.details & BY_SEVERAL) || reads.epoch != state.epoch) return ordered(reads, space);
    if ((reads.details & SEVERAL_WARPS) && !state.crossed) return false;
    // The current thread may be the latest reader itself: it must have met somebody since.
    return reads.thread == state.current ? current_thread().met_stamp > reads.stamp : met_since(reads);
}

// Bytes of a word that have been written since it counted as new.
inline uint8_t initialised_bytes(const Access& write, Space space) {
    return write.epoch < (is_shared(space) ? state.shared_since : state.launch_since) ? 0 : write.details & INITIALISED;
}

// Bytes of dynamic shared memory are counted from its start, as the kernel does.
inline long place(Space space, uintptr_t offset) {
    const uintptr_t dynamic = state.dynamic_shared - state.shared;
    return static_cast<long>(space == SHARED && offset >= dynamic ? offset - dynamic : offset);
}

// READ_BEFORE_WRITE: the word that was read had not been written, so a read after write happened in the wrong order.
// VOLATILE_WRITES: a race unless the two values are the same.
enum Clash { READ_AFTER_WRITE, WRITE_AFTER_WRITE, WRITE_AFTER_READ, READ_BEFORE_WRITE, VOLATILE_WRITES };

// The access that is being checked, where it is a write; of size 0 where its value is not known yet.
extern uintptr_t written_at __attribute__((visibility("hidden")));
extern size_t written_size __attribute__((visibility("hidden")));

// A hook comes before its write. So the write is remembered, and looked at as soon as the thread goes on: nothing else
// runs in between.
struct Write {
    uintptr_t address;
    size_t size;
    uint64_t before; // the first eight bytes as they were
    uintptr_t caller;
    Clash clash;
    Space space;
    uintptr_t offset;
    Access earlier;
    int floating_size; // not 0: no race, but a number that may not be finite, with all these bits set
    uint64_t not_finite;
};
void look_at_later(const Write& write);

// Readers of a word beside the one that its cell has: of several blocks that wait for one another by polling, a writer may be
// ordered after some only.
void forget_readers();
void keep_reader(const Cell* cell, const Access& read);
const Access* unordered_reader(const Cell* cell, uint8_t bytes, Space space);
void forget_writes();

// The first byte of the word that a cell is about, and the cell of an address; 0 and null where there is none.
uintptr_t word_of(const Cell* cell);
Cell* cell_of(uintptr_t address);

// A plain read that races with this strong store is no defect if a compare-and-swap tests it (tested_reads.cpp).
void test_later(const Cell* cell, const Access& store, Space space, uintptr_t offset, uintptr_t caller);
// Comes before each compare-and-swap.
void tested(uintptr_t address, size_t size, const void* expected);
void forget_untested_reads();

// Of a write the value is known, and the defect reported, only after it.
void race(const Access& earlier, Clash clash, Space space, uintptr_t offset, uintptr_t caller);

inline Access now(int bytes, uint8_t details, uintptr_t caller) {
    return {state.epoch,
            current_thread().stamp,
            static_cast<uint32_t>(caller - state.image),
            static_cast<uint16_t>(state.current),
            static_cast<uint8_t>(bytes),
            details};
}

// Slow paths, kept out of the inlined hooks.
#define PEAKGATE_RARE __attribute__((noinline, cold))

template <Manner manner>
PEAKGATE_RARE void read_meets_write(Cell& cell, Space space, uintptr_t offset, uintptr_t caller) {
    const Access& write = cell.write;
    if (is_strong(manner) && (write.details & STRONG) &&
        strong_together(write.details & OF_BLOCK, write.details & VOLATILE, write.details & FENCED, write, manner, space) &&
        !volatile_race(&cell, write, manner, false))
        observe(&cell, write);
    else if (!(write.details & STRONG))
        race(write, READ_AFTER_WRITE, space, offset, caller);
    else if (has_observed(&cell, write))
        return;
    else if (manner == PLAIN_READ && !(write.details & VOLATILE))
        test_later(&cell, write, space, offset, caller);
    else
        race(write, READ_AFTER_WRITE, space, offset, caller);
}

template <Manner manner>
PEAKGATE_RARE void write_meets_write(Cell& cell, Space space, uintptr_t offset, uintptr_t caller) {
    constexpr bool strong = is_strong(manner);
    const Access& write = cell.write;
    const bool fenced = is_volatile(manner) && has_fenced();
    const bool together =
        strong && (write.details & STRONG) &&
        (awaited_orders(write) ||
         strong_together(write.details & OF_BLOCK, write.details & VOLATILE, fenced, write, manner, space));
    if (!together && !((write.details & STRONG) && !strong && has_observed(&cell, write)))
        race(write, WRITE_AFTER_WRITE, space, offset, caller);
    else if (together && volatile_race(&cell, write, manner, has_fenced()))
        race(write, VOLATILE_WRITES, space, offset, caller);
    else if (manner == ATOMIC_UPDATE)
        observe(&cell, write);
}

template <Manner manner>
PEAKGATE_RARE void write_meets_reads(Cell& cell, uint8_t bytes, Space space, uintptr_t offset, uintptr_t caller) {
    const Access& reads = cell.read;
    const bool fenced = is_volatile(manner) && has_fenced();
    if (is_strong(manner) && (reads.details & STRONG_READ) &&
        strong_together(reads.details & READ_OF_BLOCK, reads.details & VOLATILE_READ, fenced, reads, manner, space))
        return;
    const bool too_early =
        space != GLOBAL && same_block(reads, space) && (reads.bytes & bytes & ~initialised_bytes(cell.write, space));
    race(reads, too_early ? READ_BEFORE_WRITE : WRITE_AFTER_READ, space, offset, caller);
}

// A read beside one of the same block that nothing orders with it.
inline void share(Access& reads, uint8_t bytes) {
    if (!(reads.bytes & bytes)) return;
    reads.details |= reads.bytes & bytes;
    if (reads.thread / WARP != state.current / WARP) reads.details |= SEVERAL_WARPS;
    reads.thread = static_cast<uint16_t>(state.current);
    reads.stamp = current_thread().stamp;
}

// The same, rarely: of strong reads, and of several blocks.
template <Manner manner> PEAKGATE_RARE void add_reader(Cell& cell, uint8_t bytes, uint8_t how, uintptr_t caller) {
    Access& reads = cell.read;
    const int more = reads.bytes & MORE_READERS;
    if (is_strong(manner) != !!(reads.details & STRONG_READ)) {
        if (!is_strong(manner)) reads = now(bytes | more, how, caller); // strong ones race with less
    } else if (reads.epoch == state.epoch) {
        share(reads, bytes);
    } else if (state.released) {
        keep_reader(&cell, reads);
        reads = now(bytes | MORE_READERS, how, caller);
    }
}

void report_uninitialised(Space space, uintptr_t offset, uintptr_t caller);

// In every hook: inlined, so that a whole word costs no mask.
template <Manner manner>
__attribute__((always_inline)) inline void note_read(Cell& cell, uint8_t bytes, Space space, uintptr_t offset, uintptr_t caller) {
    const Access& write = cell.write;
    if ((write.bytes & bytes) && !ordered(write, space)) read_meets_write<manner>(cell, space, offset, caller);
    if (space != GLOBAL && (bytes & ~initialised_bytes(write, space))) report_uninitialised(space, offset, caller);
    const auto how = static_cast<uint8_t>(
        is_strong(manner) ? STRONG_READ | (state.scope == PEAKGATE_BLOCK ? READ_OF_BLOCK : 0) | (is_volatile(manner) ? VOLATILE_READ : 0)
                          : 0);
    Access& reads = cell.read;
    if (reads.epoch == state.epoch && reads.thread == state.current && !(reads.details & BY_SEVERAL))
        reads = now(reads.bytes | bytes, how, caller);
    else if (reads_ordered(reads, space))
        reads = now(bytes | (reads.bytes & MORE_READERS), how, caller);
    else if (manner == PLAIN_READ && reads.epoch == state.epoch && !(reads.details & STRONG_READ))
        share(reads, bytes);
    else if (manner != PLAIN_READ || state.released || (reads.details & STRONG_READ))
        add_reader<manner>(cell, bytes, how, caller);
}

template <Manner manner>
__attribute__((always_inline)) inline void note_write(Cell& cell, uint8_t bytes, Space space, uintptr_t offset, uintptr_t caller) {
    constexpr bool strong = is_strong(manner);
    Access& write = cell.write;
    if ((write.bytes & bytes) && !ordered(write, space)) write_meets_write<manner>(cell, space, offset, caller);
    const Access& reads = cell.read;
    if (reads.bytes & bytes) {
        const bool by_several = reads.details & SHARED_READ & bytes;
        if (!(by_several ? reads_ordered(reads, space) : ordered(reads, space)))
            write_meets_reads<manner>(cell, bytes, space, offset, caller);
    }
    if (__builtin_expect(reads.bytes & MORE_READERS, 0)) {
        const Access* reader = strong ? nullptr : unordered_reader(&cell, bytes, space);
        if (reader) race(*reader, WRITE_AFTER_READ, space, offset, caller);
    }
    uint8_t initialised = initialised_bytes(write, space);
    initialised = static_cast<uint8_t>(manner == ASYNC_ISSUE ? initialised & ~bytes : initialised | bytes);
    const bool continued = write.epoch == state.epoch && write.thread == state.current;
    // An own plain write stays the one that others race with, whatever strong ones follow it.
    const bool is_plain = (write.bytes & bytes) && !(write.details & STRONG);
    if (strong && continued && is_plain && write.stamp == current_thread().stamp) return;
    const auto written = static_cast<uint8_t>(continued ? write.bytes | bytes : bytes);
    const int how = strong ? STRONG | (state.scope == PEAKGATE_BLOCK ? OF_BLOCK : 0) |
                                 (is_volatile(manner) ? VOLATILE | (has_fenced() ? FENCED : 0) : 0)
                           : 0;
    write = now(written, static_cast<uint8_t>(initialised | how), caller);
}

template <Manner manner>
inline void note(Cell* cells, uintptr_t offset, size_t size, Space space, uintptr_t caller) {
    const uintptr_t end = offset + size;
    if (offset % 4 == 0 && size % 4 == 0) {
        for (Cell* cell = cells + offset / 4; offset < end; offset += 4, ++cell) {
            if (is_read(manner))
                note_read<manner>(*cell, INITIALISED, space, offset, caller);
            else
                note_write<manner>(*cell, INITIALISED, space, offset, caller);
        }
        return;
    }
    while (offset < end) {
        const uintptr_t first = offset % 4;
        const uintptr_t count = end - offset < 4 - first ? end - offset : 4 - first;
        const auto bytes = static_cast<uint8_t>(((1u << count) - 1) << first);
        if (is_read(manner))
            note_read<manner>(cells[offset / 4], bytes, space, offset, caller);
        else
            note_write<manner>(cells[offset / 4], bytes, space, offset, caller);
        offset += count;
    }
}

} // namespace peakgate
