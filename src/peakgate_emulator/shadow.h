// Shadow state of memory accesses, per word, from which races and reads of unwritten memory are detected.
// It is inlined into the hooks of checks.cpp.
#pragma once

#include "runtime.h"

namespace peakgate {

// Record of the last write, or of the last reads, of a 4-byte word.
struct Access {
    uint32_t epoch, stamp;
    uint32_t address; // code address, relative to the image
    uint16_t thread;
    uint8_t bytes;   // bytes of the word, one bit each
    uint8_t details; // see below
};

struct Cell {
    Access write, read;
};

// In place of the code address of a write: the word is behind a static shared array.
constexpr uint32_t BEHIND_ARRAY = ~0u;

// Details of a write: bytes written in this block; whether the last write was strong (atomic or volatile), of block
// scope, volatile, and after a fence.
constexpr uint8_t INITIALISED = 0x0f;
constexpr uint8_t STRONG = 0x10, OF_BLOCK = 0x20, VOLATILE = 0x40, FENCED = 0x80;
// In addition to the bytes of a write: the word has been discarded, and not written since.
constexpr uint8_t DISCARDED = 0x80;
// Details of reads: bytes that several threads have read since they last met, whether those are of several warps, and
// the same flags as of writes.
constexpr uint8_t SHARED_READ = 0x0f;
constexpr uint8_t SEVERAL_WARPS = 0x10;
constexpr uint8_t BY_SEVERAL = SHARED_READ | SEVERAL_WARPS;
constexpr uint8_t STRONG_READ = 0x20, READ_OF_BLOCK = 0x40, VOLATILE_READ = 0x80;
// In addition to the bytes of reads: threads of earlier blocks have read the word too (readers.cpp).
constexpr uint8_t MORE_READERS = 0x80;

enum Space { SHARED, GLOBAL, OUTPUT };
enum Manner { PLAIN_READ, PLAIN_WRITE, ATOMIC_UPDATE, ASYNC_ISSUE, ATOMIC_READ, VOLATILE_LOAD, VOLATILE_STORE };

constexpr bool is_read(Manner manner) {
    return manner == PLAIN_READ || manner == ATOMIC_READ || manner == VOLATILE_LOAD;
}
constexpr bool is_strong(Manner manner) { return manner == ATOMIC_UPDATE || manner >= ATOMIC_READ; }
constexpr bool is_volatile(Manner manner) { return manner >= VOLATILE_LOAD; }

inline bool met_since(const Access& earlier) { return state.known[earlier.thread] > earlier.stamp; }

// True if an access happened before; for accesses of another block, and other cases not decided inline (order.cpp).
bool ordered_across_blocks(const Access& earlier);
// The same for an access to shared memory of a block of the cluster.
bool ordered_in_cluster(const Access& earlier);

inline bool is_shared(Space space) { return space == SHARED; }

// Whether the access `earlier` happened before the current thread's current access.
inline bool ordered(const Access& earlier, Space space) {
    if (earlier.epoch == state.epoch) return earlier.thread == state.current || met_since(earlier);
    if (is_shared(space) && __builtin_expect(state.cluster != nullptr, 0)) return ordered_in_cluster(earlier);
    if (is_shared(space)) // barriers do not wait for agents
        return earlier.thread < MAX_THREADS || earlier.epoch < state.shared_since || met_since(earlier);
    if (earlier.epoch < state.ordered_epoch) return true;
    // Of this block: a barrier was between.
    if (earlier.epoch - state.block_epoch < state.epoch - state.block_epoch) return true;
    return state.released ? ordered_across_blocks(earlier) : block_of(earlier.epoch) == state.block->number;
}

inline bool same_cluster(const Access& earlier) {
    const uint32_t size = cluster_blocks();
    return block_of(earlier.epoch) / size == state.block->number / size;
}

inline bool same_block(const Access& earlier, Space space) {
    return (is_shared(space) && !state.cluster) || block_of(earlier.epoch) == state.block->number;
}

// True if two strong accesses, one of them a write, do not race: each is in the other's scope. Volatile accesses to
// shared memory do not synchronise lanes of one warp, contrary to warp-synchronous programming.
inline bool strong_together(bool other_of_block, bool other_volatile, bool fenced, const Access& earlier, Manner manner, Space space) {
    if ((other_of_block || state.scope == PEAKGATE_BLOCK) && !same_block(earlier, space)) return false;
    if (state.scope == PEAKGATE_CLUSTER && !same_cluster(earlier)) return false;
    return !is_shared(space) || !other_volatile || !is_volatile(manner) || fenced ||
           earlier.thread / WARP != static_cast<unsigned>(state.current) / WARP;
}

// True if a volatile access races with a strong store although both are in scope: two volatile stores unless their
// values are equal (checked later), a volatile store and an atomic unless a fence makes the store a release, and a
// volatile load if the program intends it to follow the store.
inline bool volatile_race(const void* cell, const Access& store, Manner manner, bool fenced) {
    const bool other_volatile = store.details & VOLATILE;
    if (!other_volatile && !is_volatile(manner)) return false;
    if (awaited_orders(store) || has_observed(cell, store)) return false;
    if (is_read(manner)) return meant_to_follow(cell, store);
    return is_volatile(manner) && (other_volatile || !fenced);
}

// The same for reads that may be by several threads, of which only the latest is recorded.
inline bool reads_ordered(const Access& reads, Space space) {
    if (!(reads.details & BY_SEVERAL) || reads.epoch != state.epoch) return ordered(reads, space);
    if ((reads.details & SEVERAL_WARPS) && !state.crossed) return false;
    // If the current thread is the latest reader, it must have met other threads since.
    return reads.thread == state.current ? current_thread().met_stamp > reads.stamp : met_since(reads);
}

// Bytes of a word that have been written since it counts as unwritten.
inline uint8_t initialised_bytes(const Access& write, Space space) {
    return write.epoch < (is_shared(space) ? state.shared_since : state.launch_since) ? 0 : write.details & INITIALISED;
}

// Offsets in dynamic shared memory count from its start, as in the kernel.
inline long place(Space space, uintptr_t offset) {
    const uintptr_t dynamic = state.dynamic_shared - state.shared;
    return static_cast<long>(space == SHARED && offset >= dynamic ? offset - dynamic : offset);
}

// READ_BEFORE_WRITE: the word had not been written when it was read, so a read after write happened in the wrong order.
// VOLATILE_WRITES: a race unless the two values are equal.
enum Clash { READ_AFTER_WRITE, WRITE_AFTER_WRITE, WRITE_AFTER_READ, READ_BEFORE_WRITE, VOLATILE_WRITES };

// The access that is being checked, if it is a write; size 0 if its value is not known yet.
extern uintptr_t written_at __attribute__((visibility("hidden")));
extern size_t written_size __attribute__((visibility("hidden")));
// The access that is being checked copies a range, such as a struct.
extern bool copies_whole __attribute__((visibility("hidden")));

// A hook is called before its write, so the write is recorded and its value checked when the thread continues; nothing
// else runs in between.
struct Write {
    uintptr_t address;
    size_t size;
    uint64_t before; // the previous first eight bytes
    uintptr_t caller;
    Clash clash;
    Space space;
    uintptr_t offset;
    Access earlier;
    MissingFence fence;    // the one that would order the two accesses of a race between blocks
    uint32_t published_at; // with `fence`: see `missing_fence`
    int floating_size; // not 0: no race, but a number to be checked for NaN and infinity, which have all these bits set
    uint64_t not_finite;
};
void look_at_later(const Write& write);

// Readers of a word in addition to the one in its cell: if several blocks wait for each other by polling, a writer may
// be ordered after only some of them.
void forget_readers();
void keep_reader(const Cell* cell, const Access& read);
const Access* unordered_reader(const Cell* cell, uint8_t bytes, Space space);
void forget_writes();

// The address of a cell's word, and the cell of an address; 0 and null if there is none.
uintptr_t word_of(const Cell* cell);
Cell* cell_of(uintptr_t address);

// Records a plain read that races with this strong store, which is not a defect if a compare-and-swap tests it
// (tested_reads.cpp).
void test_later(const Cell* cell, const Access& store, Space space, uintptr_t offset, uintptr_t caller);
// Called before each compare-and-swap.
void tested(uintptr_t address, size_t size, const void* expected);
void forget_untested_reads();

// Reports a race; of a write the value is known, and the defect reported, only after it.
void race(const Access& earlier, Clash clash, Space space, uintptr_t offset, uintptr_t caller);

inline Access now(int bytes, uint8_t details, uintptr_t caller) {
    return {state.epoch,
            current_thread().stamp,
            static_cast<uint32_t>(caller - state.image),
            static_cast<uint16_t>(state.current),
            static_cast<uint8_t>(bytes),
            details};
}

// Ends the launch: an access to none of the memory that the kernel may use.
[[noreturn]] void outside(const char* what, uintptr_t address, size_t size, uintptr_t caller);
// Ends the launch: an access to the gap behind a static array, whose words have the mark BEHIND_ARRAY.
[[noreturn]] void behind_array(bool reads, uintptr_t offset, uintptr_t caller);

// Called at a write to bytes that an asynchronous copy may have in flight: it is no race of threads if both are the same.
void write_meets_copy(uintptr_t offset, uintptr_t caller);

// Slow paths, kept out of the inlined hooks.
#define PEAKGATE_RARE __attribute__((noinline, cold)) inline

PEAKGATE_RARE void read_meets_write(Manner manner, Cell& cell, Space space, uintptr_t offset, uintptr_t caller) {
    const Access& write = cell.write;
    if (write.address == BEHIND_ARRAY) behind_array(true, offset, caller);
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

PEAKGATE_RARE void write_meets_write(Manner manner, Cell& cell, Space space, uintptr_t offset, uintptr_t caller) {
    const bool strong = is_strong(manner);
    const Access& write = cell.write;
    if (write.address == BEHIND_ARRAY) behind_array(false, offset, caller);
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

PEAKGATE_RARE void write_meets_reads(Manner manner, Cell& cell, uint8_t bytes, Space space, uintptr_t offset, uintptr_t caller) {
    const Access& reads = cell.read;
    const bool fenced = is_volatile(manner) && has_fenced();
    if (is_strong(manner) && (reads.details & STRONG_READ) &&
        strong_together(reads.details & READ_OF_BLOCK, reads.details & VOLATILE_READ, fenced, reads, manner, space))
        return;
    const bool too_early =
        space != GLOBAL && same_block(reads, space) && (reads.bytes & bytes & ~initialised_bytes(cell.write, space));
    race(reads, too_early ? READ_BEFORE_WRITE : WRITE_AFTER_READ, space, offset, caller);
}

// A read concurrent with an unordered one of the same block.
inline void share(Access& reads, uint8_t bytes) {
    if (!(reads.bytes & bytes)) return;
    reads.details |= reads.bytes & bytes;
    if (reads.thread / WARP != state.current / WARP) reads.details |= SEVERAL_WARPS;
    if (reads.thread >= MAX_THREADS) return; // an agent, which is rarely waited for by others
    reads.thread = static_cast<uint16_t>(state.current);
    reads.stamp = current_thread().stamp;
}

// The same for strong reads and reads of several blocks, which are rare.
PEAKGATE_RARE void add_reader(Manner manner, Cell& cell, uint8_t bytes, uint8_t how, uintptr_t caller) {
    Access& reads = cell.read;
    const int more = reads.bytes & MORE_READERS;
    if (is_strong(manner) != !!(reads.details & STRONG_READ)) {
        if (!is_strong(manner)) reads = now(bytes | more, how, caller); // strong reads race with fewer accesses
    } else if (reads.epoch == state.epoch) {
        share(reads, bytes);
    } else if (state.released) {
        keep_reader(&cell, reads);
        reads = now(bytes | MORE_READERS, how, caller);
    }
}

// `read`, `there`: the bytes of the word that are read, and those that have been written; `wide`: other words are read too.
void report_uninitialised(Space space, uintptr_t offset, uintptr_t caller, int read, int there, bool wide);
void report_discarded(const Access& discard, uintptr_t offset, uintptr_t caller);

// Inlined in every hook, so that accesses to whole words need no mask.
__attribute__((always_inline)) inline void note_read(Manner manner, Cell& cell, uint8_t bytes, Space space, uintptr_t offset, uintptr_t caller, bool wide) {
    const Access& write = cell.write;
    if ((write.bytes & bytes) && !ordered(write, space)) read_meets_write(manner, cell, space, offset, caller);
    if (__builtin_expect(write.bytes & DISCARDED, 0)) report_discarded(write, offset, caller);
    if (space != GLOBAL && (bytes & ~initialised_bytes(write, space))) report_uninitialised(space, offset, caller, bytes, initialised_bytes(write, space), wide);
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
        add_reader(manner, cell, bytes, how, caller);
}

__attribute__((always_inline)) inline void note_write(Manner manner, Cell& cell, uint8_t bytes, Space space, uintptr_t offset, uintptr_t caller) {
    const bool strong = is_strong(manner);
    Access& write = cell.write;
    if ((write.bytes & bytes) && !ordered(write, space)) write_meets_write(manner, cell, space, offset, caller);
    if (manner != ASYNC_ISSUE && __builtin_expect(write.bytes & bytes & ~write.details, 0) && is_shared(space))
        write_meets_copy(offset, caller);
    const Access& reads = cell.read;
    if (reads.bytes & bytes) {
        const bool by_several = reads.details & SHARED_READ & bytes;
        if (!(by_several ? reads_ordered(reads, space) : ordered(reads, space)))
            write_meets_reads(manner, cell, bytes, space, offset, caller);
    }
    if (__builtin_expect(reads.bytes & MORE_READERS, 0)) {
        const Access* reader = strong ? nullptr : unordered_reader(&cell, bytes, space);
        if (reader) race(*reader, WRITE_AFTER_READ, space, offset, caller);
    }
    uint8_t initialised = initialised_bytes(write, space);
    initialised = static_cast<uint8_t>(manner == ASYNC_ISSUE ? initialised & ~bytes : initialised | bytes);
    const bool continued = write.epoch == state.epoch && write.thread == state.current;
    // A thread's plain write is kept for the detection of races even if the same thread's strong writes follow.
    const bool is_plain = (write.bytes & bytes) && !(write.details & STRONG) && !(write.bytes & DISCARDED);
    if (strong && continued && is_plain && write.stamp == current_thread().stamp) return;
    const auto written = static_cast<uint8_t>((continued ? write.bytes & INITIALISED : 0) | bytes);
    const int how = strong ? STRONG | (state.scope == PEAKGATE_BLOCK ? OF_BLOCK : 0) |
                                 (is_volatile(manner) ? VOLATILE | (has_fenced() ? FENCED : 0) : 0)
                           : 0;
    write = now(written, static_cast<uint8_t>(initialised | how), caller);
}

__attribute__((always_inline)) inline void note_as(Manner manner, Cell* cells, uintptr_t offset, size_t size, Space space, uintptr_t caller) {
    const uintptr_t end = offset + size;
    if (offset % 4 == 0 && size % 4 == 0) {
        for (Cell* cell = cells + offset / 4; offset < end; offset += 4, ++cell) {
            if (is_read(manner))
                note_read(manner, *cell, INITIALISED, space, offset, caller, size > 4);
            else
                note_write(manner, *cell, INITIALISED, space, offset, caller);
        }
        return;
    }
    while (offset < end) {
        const uintptr_t first = offset % 4;
        const uintptr_t count = end - offset < 4 - first ? end - offset : 4 - first;
        const auto bytes = static_cast<uint8_t>(((1u << count) - 1) << first);
        if (is_read(manner))
            note_read(manner, cells[offset / 4], bytes, space, offset, caller, size > 4);
        else
            note_write(manner, cells[offset / 4], bytes, space, offset, caller);
        offset += count;
    }
}

// Compiled three times: most accesses are plain.
__attribute__((noinline)) inline void note_plain_read(Cell* cells, uintptr_t offset, size_t size, Space space, uintptr_t caller) {
    note_as(PLAIN_READ, cells, offset, size, space, caller);
}
__attribute__((noinline)) inline void note_plain_write(Cell* cells, uintptr_t offset, size_t size, Space space, uintptr_t caller) {
    note_as(PLAIN_WRITE, cells, offset, size, space, caller);
}
__attribute__((noinline)) inline void note_other(Manner manner, Cell* cells, uintptr_t offset, size_t size, Space space, uintptr_t caller) {
    note_as(manner, cells, offset, size, space, caller);
}
__attribute__((always_inline)) inline void note(Manner manner, Cell* cells, uintptr_t offset, size_t size, Space space, uintptr_t caller) {
    if (manner == PLAIN_READ)
        note_plain_read(cells, offset, size, space, caller);
    else if (manner == PLAIN_WRITE)
        note_plain_write(cells, offset, size, space, caller);
    else
        note_other(manner, cells, offset, size, space, caller);
}

} // namespace peakgate
