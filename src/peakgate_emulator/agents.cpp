// Checks of accesses that asynchronous operations make as agents (order.cpp), begun by a thread and waited for later.
#include "shadow.h"

#include <string.h>

namespace peakgate {

void check_agent_read(const void* from, size_t size, int agent, uint32_t stamp, uintptr_t caller) {
    const auto address = reinterpret_cast<uintptr_t>(from);
    if (!size) return;
    const Place source = place_in_cluster(address);
    const uintptr_t begin = source.address - state.shared;
    if (begin >= state.shared_size) outside("asynchronous read of shared memory", address, size, caller);
    check_read(from, size, caller);
    const Access* fenced = nullptr; // neighbouring words usually have the same writer
    for (uintptr_t offset = begin; offset < begin + size; offset += 4) {
        Cell& cell = source.block->shadow[offset / 4];
        const Access& write = cell.write;
        const bool known = fenced && fenced->thread == write.thread && fenced->epoch == write.epoch && fenced->stamp == write.stamp;
        if (!known && write.thread < MAX_THREADS && write.epoch >= state.shared_since && (write.details & INITIALISED) &&
            block_of(write.epoch) == source.block->number && !fenced_for_agents(*source.block, write, PEAKGATE_OF_SHARED)) {
            report(SHARED_RACE, caller, state.image + write.address,
                   "asynchronous read of shared memory (byte %ld) that a thread has written, and no fence.proxy.async is "
                   "between the two",
                   place(SHARED, offset));
        }
        fenced = &write;
        Access& read = cell.read;
        if (read.epoch == state.epoch && read.thread == state.current && read.stamp == current_thread().stamp) {
            read.thread = static_cast<uint16_t>(agent);
            read.stamp = stamp;
        }
    }
}

void check_copied_from_global(const void* from, size_t size, uintptr_t caller) {
    check_read(from, size, caller);
    Cell* const cells = state.checking ? cell_of(reinterpret_cast<uintptr_t>(from)) : nullptr;
    for (size_t word = 0; cells && word < (size + 3) / 4; ++word) {
        const Access& write = cells[word].write;
        if (write.epoch < state.launch_since || write.thread >= MAX_THREADS || !(write.bytes & INITIALISED)) continue;
        const bool own = block_of(write.epoch) == state.block->number;
        if (own ? fenced_for_agents(*state.block, write, PEAKGATE_OF_GLOBAL) : fenced_for_agents_anywhere(write)) continue;
        if (!ordered(write, GLOBAL)) continue; // a race of its own
        report(GLOBAL_RACE, caller, state.image + write.address,
               "copy by the copy engine from global memory that a thread has written, and no fence.proxy.async is between the two");
        return;
    }
}

void check_refilled(const Block& block, const void* to, size_t size, uintptr_t caller) {
    const uint32_t since = &block == state.block ? state.shared_since : block.shared_since;
    const Cell* const cells = cell_of(reinterpret_cast<uintptr_t>(to));
    const Access* fenced = nullptr; // neighbouring words usually have the same writer
    for (size_t word = 0; cells && word < (size + 3) / 4; ++word) {
        const Access& write = cells[word].write;
        const bool known = fenced && fenced->thread == write.thread && fenced->epoch == write.epoch && fenced->stamp == write.stamp;
        if (known || write.thread >= MAX_THREADS || write.epoch < since || !(write.details & INITIALISED)) continue;
        if (block_of(write.epoch) == block.number && !fenced_for_agents(block, write, PEAKGATE_OF_SHARED)) {
            report(SHARED_RACE, caller, state.image + write.address,
                   "asynchronous write to shared memory that a thread has written, and no fence.proxy.async is between the two");
            return;
        }
        fenced = &write;
    }
}

void check_agent_write(void* to, size_t size, int agent, uint32_t stamp, uintptr_t caller, bool updates) {
    if (updates) {
        check_update(to, size, caller);
    } else {
        check_async_destination(to, size, caller);
        memset(to, 0xff, size);
    }
    Cell* cells = cell_of(reinterpret_cast<uintptr_t>(to));
    for (size_t word = 0; word < (size + 3) / 4; ++word) {
        Access& write = cells[word].write;
        write.thread = static_cast<uint16_t>(agent);
        write.stamp = stamp;
    }
}

void arrived(void* at, size_t size, int agent, uint32_t stamp) {
    const Place place = place_in_cluster(reinterpret_cast<uintptr_t>(at));
    for (uintptr_t offset = place.address - state.shared, end = offset + size; offset < end; offset += 4) {
        Access& write = place.block->shadow[offset / 4].write;
        write = {state.epoch, stamp, write.address, static_cast<uint16_t>(agent), INITIALISED, INITIALISED};
    }
}

} // namespace peakgate
