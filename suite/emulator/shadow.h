// What is remembered of memory accesses, word by word, and what follows from it: races and reads of what nobody wrote.
// What it does is inlined into the hooks of checks.cpp.
#pragma once

#include "runtime.h"

namespace peakgate {

// What is remembered of the last write, or of the last reads, of a 4-byte word.
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

// Details of a write: bytes that have been written in this block, and whether the last write was atomic.
constexpr uint8_t INITIALISED = 0x0f;
constexpr uint8_t ATOMIC = 0x10;
// Details of reads: bytes that several threads have read since they last met, and whether those are of several warps.
constexpr uint8_t SHARED_READ = 0x0f;
constexpr uint8_t SEVERAL_WARPS = 0x10;

enum Space { SHARED, GLOBAL, OUTPUT };
enum Manner { PLAIN_READ, PLAIN_WRITE, ATOMIC_UPDATE, ASYNC_ISSUE };

inline bool met_since(const Access& earlier) { return state.known[earlier.thread] > earlier.stamp; }

// Has what `earlier` notes happened before what the current thread does now?
inline bool ordered(const Access& earlier, Space space) {
    if (earlier.epoch < state.ordered_epoch) return true;
    if (earlier.epoch < state.block_epoch) return space == SHARED || earlier.epoch <= state.acquired_epoch;
    return earlier.epoch != state.epoch || earlier.thread == state.current || met_since(earlier);
}

// The same for reads that may be those of several threads, of which only the latest is remembered.
inline bool reads_ordered(const Access& reads, Space space) {
    if (!reads.details || reads.epoch != state.epoch) return ordered(reads, space);
    if ((reads.details & SEVERAL_WARPS) && !state.crossed) return false;
    // The current thread may be the latest reader itself: it must have met somebody since.
    return reads.thread == state.current ? current_thread().stamp > reads.stamp : met_since(reads);
}

inline bool is_shared(Space space) { return space == SHARED; }

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
enum Clash { READ_AFTER_WRITE, WRITE_AFTER_WRITE, WRITE_AFTER_READ, READ_BEFORE_WRITE };

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
void forget_writes();

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

// In every hook: inlined, so that a whole word costs no mask.
__attribute__((always_inline)) inline void note_read(Cell& cell, uint8_t bytes, Space space, uintptr_t offset, uintptr_t caller) {
    if ((cell.write.bytes & bytes) && !ordered(cell.write, space))
        race(cell.write, READ_AFTER_WRITE, space, offset, caller);
    if (space != GLOBAL && (bytes & ~initialised_bytes(cell.write, space))) {
        if (is_shared(space))
            report(UNINITIALISED_SHARED, caller, 0, "read of shared memory (byte %ld) that this block has not written",
                   place(space, offset));
        else
            report(UNINITIALISED_GLOBAL, caller, 0, "read of global memory (byte %ld) that nobody has written",
                   place(space, offset));
    }
    Access& reads = cell.read;
    if (reads.epoch == state.epoch && reads.thread == state.current && !reads.details) {
        reads = now(reads.bytes | bytes, 0, caller);
    } else if (reads_ordered(reads, space)) {
        reads = now(bytes, 0, caller);
    } else if (reads.bytes & bytes) {
        reads.details |= reads.bytes & bytes;
        if (reads.thread / WARP != state.current / WARP) reads.details |= SEVERAL_WARPS;
        reads.thread = static_cast<uint16_t>(state.current);
        reads.stamp = current_thread().stamp;
    }
}

__attribute__((always_inline)) inline void note_write(Cell& cell, uint8_t bytes, Manner manner, Space space,
                                                      uintptr_t offset, uintptr_t caller) {
    const bool atomic = manner == ATOMIC_UPDATE;
    Access& write = cell.write;
    if ((write.bytes & bytes) && !(atomic && (write.details & ATOMIC)) && !ordered(write, space))
        race(write, WRITE_AFTER_WRITE, space, offset, caller);
    const Access& reads = cell.read;
    if (!atomic && (reads.bytes & bytes)) {
        const bool by_several = reads.details & SHARED_READ & bytes;
        if (!(by_several ? reads_ordered(reads, space) : ordered(reads, space))) {
            const bool too_early = space != GLOBAL && reads.epoch >= state.block_epoch &&
                                   (reads.bytes & bytes & ~initialised_bytes(write, space));
            race(reads, too_early ? READ_BEFORE_WRITE : WRITE_AFTER_READ, space, offset, caller);
        }
    }
    uint8_t initialised = initialised_bytes(write, space);
    initialised = static_cast<uint8_t>(manner == ASYNC_ISSUE ? initialised & ~bytes : initialised | bytes);
    const bool continued = write.epoch == state.epoch && write.thread == state.current;
    // An own plain write stays the one that others race with, whatever atomics follow it.
    const bool is_plain = (write.bytes & bytes) && !(write.details & ATOMIC);
    if (atomic && continued && is_plain && write.stamp == current_thread().stamp) return;
    const auto written = static_cast<uint8_t>(continued ? write.bytes | bytes : bytes);
    write = now(written, static_cast<uint8_t>(initialised | (atomic ? ATOMIC : 0)), caller);
}

template <Manner manner>
inline void note(Cell* cells, uintptr_t offset, size_t size, Space space, uintptr_t caller) {
    const uintptr_t end = offset + size;
    if (offset % 4 == 0 && size % 4 == 0) {
        for (Cell* cell = cells + offset / 4; offset < end; offset += 4, ++cell) {
            if (manner == PLAIN_READ)
                note_read(*cell, INITIALISED, space, offset, caller);
            else
                note_write(*cell, INITIALISED, manner, space, offset, caller);
        }
        return;
    }
    while (offset < end) {
        const uintptr_t first = offset % 4;
        const uintptr_t count = end - offset < 4 - first ? end - offset : 4 - first;
        const auto bytes = static_cast<uint8_t>(((1u << count) - 1) << first);
        if (manner == PLAIN_READ)
            note_read(cells[offset / 4], bytes, space, offset, caller);
        else
            note_write(cells[offset / 4], bytes, manner, space, offset, caller);
        offset += count;
    }
}

} // namespace peakgate
