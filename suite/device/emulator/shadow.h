// What is remembered of memory accesses, word by word, and what follows from it: races and reads of what nobody wrote.
// Included by checks.cpp alone, so that it is inlined into the hooks.
#pragma once

#include "runtime.h"

namespace peakgate {

// What is remembered of the last write, or of the last reads, of a 4-byte word.
struct Access {
    uint32_t epoch, warp_epoch;
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

enum Space { SHARED, GLOBAL };
enum Manner { PLAIN_READ, PLAIN_WRITE, ATOMIC_UPDATE, ASYNC_ISSUE };

inline bool met_since(const Access& earlier) {
    const bool same_warp = earlier.thread / WARP == state.current / WARP;
    return same_warp && current_thread().warp_epoch > earlier.warp_epoch;
}

// Has what `earlier` notes happened before what the current thread does now?
inline bool ordered(const Access& earlier, Space space) {
    if (earlier.epoch < state.launch_epoch) return true;
    if (earlier.epoch < state.block_epoch) return space == SHARED || earlier.epoch <= state.acquired_epoch;
    return earlier.epoch != state.epoch || earlier.thread == state.current || met_since(earlier);
}

// The same for reads that may be those of several threads.
inline bool reads_ordered(const Access& reads, Space space) {
    if (!reads.details || reads.epoch != state.epoch) return ordered(reads, space);
    return !(reads.details & SEVERAL_WARPS) && met_since(reads);
}

// Bytes of dynamic shared memory are counted from its start, as the kernel does.
inline long place(Space space, uintptr_t offset) {
    const uintptr_t dynamic = state.dynamic_shared - state.shared;
    return static_cast<long>(space == SHARED && offset >= dynamic ? offset - dynamic : offset);
}

__attribute__((noinline)) inline void race(const Access& earlier, const char* what, Space space, uintptr_t offset,
                                    uintptr_t caller) {
    const bool other_block = earlier.epoch < state.block_epoch;
    Report* noted = report(space == SHARED ? SHARED_RACE : GLOBAL_RACE, caller, state.image + earlier.address,
                           "%s of the same %s word (byte %ld) by another %s, and nothing orders the two", what,
                           space == SHARED ? "shared" : "global", place(space, offset),
                           other_block ? "block" : "thread");
    if (noted && !other_block && earlier.thread != state.current) {
        noted->has_other_thread = 1;
        noted->other_thread = state.threads[earlier.thread].index;
    }
}

inline Access now(int bytes, uint8_t details, uintptr_t caller) {
    return {state.epoch,
            current_thread().warp_epoch,
            static_cast<uint32_t>(caller - state.image),
            static_cast<uint16_t>(state.current),
            static_cast<uint8_t>(bytes),
            details};
}

inline void note_read(Cell& cell, uint8_t bytes, Space space, uintptr_t offset, uintptr_t caller) {
    if ((cell.write.bytes & bytes) && !ordered(cell.write, space))
        race(cell.write, "read after write", space, offset, caller);
    if (space == SHARED) {
        const uint8_t initialised = cell.write.epoch < state.block_epoch ? 0 : cell.write.details & INITIALISED;
        if (bytes & ~initialised)
            report(UNINITIALISED_SHARED, caller, 0, "read of shared memory (byte %ld) that this block has not written",
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
        if (reads.warp_epoch < current_thread().warp_epoch) reads.warp_epoch = current_thread().warp_epoch;
    }
}

inline void note_write(Cell& cell, uint8_t bytes, Manner manner, Space space, uintptr_t offset, uintptr_t caller) {
    const bool atomic = manner == ATOMIC_UPDATE;
    Access& write = cell.write;
    if ((write.bytes & bytes) && !(atomic && (write.details & ATOMIC)) && !ordered(write, space))
        race(write, "write after write", space, offset, caller);
    const Access& reads = cell.read;
    if (!atomic && (reads.bytes & bytes)) {
        const bool by_several = reads.details & SHARED_READ & bytes;
        if (!(by_several ? reads_ordered(reads, space) : ordered(reads, space)))
            race(reads, "write after read", space, offset, caller);
    }
    uint8_t initialised = write.epoch < state.block_epoch ? 0 : write.details & INITIALISED;
    initialised = static_cast<uint8_t>(manner == ASYNC_ISSUE ? initialised & ~bytes : initialised | bytes);
    const bool continued = write.epoch == state.epoch && write.thread == state.current;
    const auto written = static_cast<uint8_t>(continued ? write.bytes | bytes : bytes);
    write = now(written, static_cast<uint8_t>(initialised | (atomic ? ATOMIC : 0)), caller);
}

template <Manner manner>
inline void note(Cell* cells, uintptr_t offset, size_t size, Space space, uintptr_t caller) {
    const uintptr_t end = offset + size;
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
