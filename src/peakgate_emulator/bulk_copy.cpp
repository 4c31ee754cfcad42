// Copies by the copy engine (TMA): bytes, or tiles of arrays that tensor maps describe, between global and shared
// memory.
//
// A copy to shared memory is sent when it is issued and arrives when the phase of its barrier object ends, that is,
// when a thread tests the barrier and neither arrivals nor bytes are missing. Until then its destination counts as
// unwritten. Races are detected at the issue, since hardware may begin at once. A copy from shared memory reads until
// its group is waited for, and has written after a full wait (not `.read`) or at the end of its thread. Both are
// performed by agents (order.cpp).
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

namespace peakgate {

constexpr uintptr_t PIECE = 16, TILE_ALIGNMENT = 128;

// The global memory of a copy: a tile of an array, or `bytes` bytes from `linear` on.
struct Extent {
    const TensorMap* map; // null: bytes
    int at[MAX_AXES];
    char* linear;
    uint32_t bytes; // in shared memory
    char* sent;     // the data that another block sends, copied at the issue; null: the data come from global memory
};

struct Load {
    Extent from;
    char* to; // as the block with the barrier object sees it
    const Block* block; // whose shared memory it is
    int object, agent;
    const Block* issued_by;
    uintptr_t caller;
    bool of_shared; // whether it reads shared memory of the block that issued it
    PeakgateReduction reduction; // without a function: a plain copy
};

struct Store {
    Extent to;
    char* from;
    char* staged; // the data read so far; null: nothing yet
    int thread, group, agent;
    uint32_t stamp;
    uintptr_t caller;
    PeakgateReduction reduction; // without a function: a plain store
};

struct BulkCopies {
    Load* loads;
    size_t load_count, load_room;
    Store* stores;
    size_t store_count, store_room;
    int committed[MAX_THREADS]; // number of committed groups of stores
};

BulkCopies* new_bulk_copies() { return static_cast<BulkCopies*>(calloc(1, sizeof(BulkCopies))); }

namespace {

BulkCopies& here() { return *state.block->bulk_copies; }

// The swizzled address of a unit of 16 bytes.
char* swizzled(char* place, int span) {
    const auto address = reinterpret_cast<uintptr_t>(place);
    const uintptr_t units = span ? static_cast<uintptr_t>(span) / PIECE - 1 : 0;
    return reinterpret_cast<char*>(address ^ ((address >> 7 & units) << 4));
}

// Calls `row(in_shared, in_global, first, count)` for each row of a tile; of its elements, `count` from `first` on are
// inside the array.
template <class F> void for_rows(const Extent& tile, F row) {
    const TensorMap& map = *tile.map;
    int rows = 1;
    for (int axis = 1; axis < map.axes; ++axis) rows *= map.box[axis];
    for (int number = 0; number < rows; ++number) {
        bool inside = true;
        int left = number;
        int64_t offset = 0;
        for (int axis = 1; axis < map.axes; ++axis) {
            const int64_t at = static_cast<int64_t>(tile.at[axis]) + left % map.box[axis];
            left /= map.box[axis];
            inside &= at >= 0 && at < static_cast<int64_t>(map.extents[axis]);
            offset += at * static_cast<int64_t>(map.strides[axis]);
        }
        const int64_t extent = static_cast<int64_t>(map.extents[0]) - tile.at[0];
        const int first = tile.at[0] < 0 ? -tile.at[0] : 0;
        const int end = extent < map.box[0] ? static_cast<int>(extent) : map.box[0];
        const int count = inside && first < end ? end - first : 0;
        char* global = static_cast<char*>(map.buffer->device) + offset +
                       (static_cast<int64_t>(tile.at[0]) + first) * map.element_bytes;
        row(static_cast<uintptr_t>(number) * static_cast<uintptr_t>(map.box[0] * map.element_bytes), global, first, count);
    }
}

// Calls `piece(in_shared, in_global, bytes)` for the part of a row that is inside, in pieces within units of 16 bytes.
template <class F> void for_pieces(const TensorMap& map, char* row, char* global, int first, int count, F piece) {
    const auto begin = static_cast<uintptr_t>(first * map.element_bytes);
    const auto end = begin + static_cast<uintptr_t>(count * map.element_bytes);
    for (uintptr_t at = begin; at < end;) {
        const uintptr_t next = (at / PIECE + 1) * PIECE < end ? (at / PIECE + 1) * PIECE : end;
        piece(swizzled(row + at / PIECE * PIECE, map.swizzle) + at % PIECE, global + (at - begin), next - at);
        at = next;
    }
}

void check_alignment(const void* address, uintptr_t alignment, const char* what, uintptr_t caller) {
    if (reinterpret_cast<uintptr_t>(address) % alignment == 0) return;
    report(MISALIGNED, caller, 0, "bulk copy whose %s is not aligned to %lu bytes", what, static_cast<unsigned long>(alignment));
    abandon_launch();
}

Extent tile_of(const PeakgateTile& asked, uintptr_t caller) {
    const Launch& launch = state.launch;
    const auto address = reinterpret_cast<uintptr_t>(asked.map);
    const TensorMap* map = nullptr;
    if (address % alignof(uint64_t) == 0) {
        check_read(asked.map, 2 * sizeof(uint64_t), caller);
        const auto* words = static_cast<const uint64_t*>(asked.map);
        for (int i = 0; i < launch.tensor_map_count; ++i) {
            if (words[0] == PEAKGATE_TENSOR_MAP && words[1] == reinterpret_cast<uintptr_t>(&launch.tensor_maps[i]))
                map = &launch.tensor_maps[i];
        }
    }
    if (!map) {
        report(OUT_OF_BOUNDS, caller, 0, "copy of a tile without a tensor map of this launch");
        abandon_launch();
    }
    if (asked.axes != map->axes) {
        report(OUT_OF_BOUNDS, caller, 0, "copy of a tile by %d coordinates, its tensor map has %d axes", asked.axes, map->axes);
        abandon_launch();
    }
    Extent tile = {map, {}, nullptr, static_cast<uint32_t>(map->element_bytes), nullptr};
    for (int axis = 0; axis < map->axes; ++axis) {
        tile.at[axis] = asked.at[axis];
        tile.bytes *= static_cast<uint32_t>(map->box[axis]);
    }
    if (map->swizzle && map->box[0] * map->element_bytes != map->swizzle) {
        report(NOT_EMULATED, caller, 0, "a box with rows of %d bytes in the %d-byte swizzle", map->box[0] * map->element_bytes,
               map->swizzle);
        abandon_launch();
    }
    return tile;
}

Extent bytes_of(const void* global, uint32_t bytes, uintptr_t caller) {
    check_alignment(global, PIECE, "address in global memory", caller);
    if (bytes % PIECE) {
        report(MISALIGNED, caller, 0, "bulk copy of %u bytes; only multiples of 16 are possible", bytes);
        abandon_launch();
    }
    return {nullptr, {}, static_cast<char*>(const_cast<void*>(global)), bytes, nullptr};
}

// Sends to one address and counts the bytes at one barrier object, both of the same block, or of a pair.
void send(const Extent& from, void* to, const void* barrier, uintptr_t caller, bool pairs = false, bool of_shared = false,
          const PeakgateReduction& reduction = {}) {
    state.sending = true;
    const int object = expect_arrival(barrier, from.bytes, caller);
    const Place place = place_in_cluster(reinterpret_cast<uintptr_t>(to));
    Block& counting = *place_in_cluster(reinterpret_cast<uintptr_t>(barrier)).block;
    if (&counting != place.block && !(pairs && (counting.rank ^ 1) == place.block->rank)) {
        report(OUT_OF_BOUNDS, caller, 0, "copy to one block of the cluster whose barrier object is in another one%s", pairs ? " that is not of its pair" : "");
        abandon_launch();
    }
    // As the block with the barrier object sees it.
    uintptr_t destination = place.address;
    if (&counting != place.block) destination = reinterpret_cast<uintptr_t>(window_of(*place.block)) + (place.address - state.shared);
    if (!from.sent || of_shared) check_refilled(*place.block, to, from.bytes, caller); // st.async writes as threads do
    const int by = agent(LOADS, object);
    check_agent_write(to, from.bytes, by, new_stamp_of(by), caller, reduction.combine != nullptr);
    state.sending = false;
    BulkCopies& all = *counting.bulk_copies;
    append(all.loads, all.load_count, all.load_room,
           {from, reinterpret_cast<char*>(destination), place.block, object, by, state.block, caller, of_shared, reduction});
    settle_bytes(counting, object);
}

void load(const Extent& from, void* to, const void* barrier, unsigned blocks, bool pairs, uintptr_t caller) {
    check_alignment(to, from.map ? TILE_ALIGNMENT : PIECE, "address in shared memory", caller);
    if (from.map)
        for_rows(from, [&](uintptr_t, char* global, int, int count) {
            check_copied_from_global(global, static_cast<size_t>(count * from.map->element_bytes), caller);
        });
    else
        check_async_source(from.linear, from.bytes, caller), check_copied_from_global(from.linear, from.bytes, caller);
    if (!blocks) send(from, to, barrier, caller, pairs);
    const int counting = place_in_cluster(reinterpret_cast<uintptr_t>(barrier)).block->rank;
    for (unsigned left = blocks; left; left &= left - 1) {
        const auto there = [&](const void* own, int rank) {
            return peakgate_map_shared(own, static_cast<unsigned>(rank), reinterpret_cast<const void*>(caller));
        };
        // In pairs the bytes are counted by all even blocks, or by all odd ones (PTX ISA 9.7.9.27.1.2).
        const int rank = __builtin_ctz(left), of_pair = rank / 2 * 2 + counting % 2;
        send(from, there(to, rank), there(barrier, pairs ? of_pair : rank), caller, pairs);
    }
}

// Copies the current contents of shared memory or registers, to be sent to another block.
Extent sent_bytes(const void* from, uint32_t bytes) {
    auto* copy = static_cast<char*>(malloc(bytes));
    if (!copy) abort();
    memcpy(copy, from, bytes);
    return {nullptr, {}, copy, bytes, copy};
}

void perform(const Load& load) {
    if (load.reduction.combine) {
        load.reduction.combine(load.to, load.from.linear);
        free(load.from.sent);
        return;
    }
    memset(load.to, 0, load.from.bytes);
    if (!load.from.map)
        memcpy(load.to, load.from.linear, load.from.bytes), free(load.from.sent);
    else
        for_rows(load.from, [&](uintptr_t offset, char* global, int first, int count) {
            for_pieces(*load.from.map, load.to + offset, global, first, count,
                       [](char* to, const char* from, size_t bytes) { memcpy(to, from, bytes); });
        });
}

void store(const Extent& to, const void* from, uintptr_t caller, const PeakgateReduction& reduction = {}) {
    check_alignment(from, to.map ? TILE_ALIGNMENT : PIECE, "address in shared memory", caller);
    const int by = agent(STORES, state.current / WARP);
    const uint32_t stamp = new_stamp_of(by);
    if (to.map) { // elements outside the array are not stored and may be uninitialised
        char* tile = static_cast<char*>(const_cast<void*>(from));
        for_rows(to, [&](uintptr_t offset, char* global, int first, int count) {
            for_pieces(*to.map, tile + offset, global, first, count,
                       [&](const char* piece, char*, size_t bytes) { check_agent_read(piece, bytes, by, stamp, caller); });
        });
    } else {
        check_agent_read(from, to.bytes, by, stamp, caller);
        check_async_source(to.linear, to.bytes, caller);
    }
    BulkCopies& all = here();
    append(all.stores, all.store_count, all.store_room,
           {to, static_cast<char*>(const_cast<void*>(from)), nullptr, state.current, all.committed[state.current], by, stamp, caller, reduction});
}

// Copies the current contents of shared memory, which will be stored.
void read_shared(Store& store) {
    if (store.staged) return;
    store.staged = static_cast<char*>(malloc(store.to.bytes));
    if (!store.staged) abort();
    if (store.to.map)
        for_rows(store.to, [&](uintptr_t offset, char*, int first, int count) {
            for_pieces(*store.to.map, store.from + offset, store.staged + offset + first * store.to.map->element_bytes, first,
                       count, [](const char* from, char* to, size_t bytes) { memcpy(to, from, bytes); });
        });
    else
        memcpy(store.staged, store.from, store.to.bytes);
    learn(store.thread, store.agent, store.stamp);
}

void write_global(Store& store) {
    read_shared(store);
    if (store.to.map)
        for_rows(store.to, [&](uintptr_t offset, char* global, int first, int count) {
            const auto bytes = static_cast<size_t>(count * store.to.map->element_bytes);
            check_write(global, bytes, store.caller);
            memcpy(global, store.staged + offset + first * store.to.map->element_bytes, bytes);
        });
    else if (store.reduction.combine)
        for (uint32_t at = 0; at < store.to.bytes; at += static_cast<uint32_t>(store.reduction.size)) {
            check_update(store.to.linear + at, static_cast<size_t>(store.reduction.size), store.caller);
            store.reduction.combine(store.to.linear + at, store.staged + at);
        }
    else {
        check_write(store.to.linear, store.to.bytes, store.caller);
        memcpy(store.to.linear, store.staged, store.to.bytes);
    }
    free(store.staged);
    store.staged = nullptr;
}

// Performs the stores of the current thread in groups before this one.
void perform_stores(int before, bool reads_only) {
    BulkCopies& all = here();
    size_t kept = 0;
    for (size_t i = 0; i < all.store_count; ++i) {
        Store& each = all.stores[i];
        const bool is_due = each.thread == state.current && each.group < before;
        if (is_due && reads_only) read_shared(each);
        if (is_due && !reads_only)
            write_global(each);
        else
            all.stores[kept++] = each;
    }
    all.store_count = kept;
}

} // namespace

void begin_block_of_bulk_copies() {
    BulkCopies& all = here();
    for (size_t i = 0; i < all.store_count; ++i) free(all.stores[i].staged);
    for (size_t i = 0; i < all.load_count; ++i) free(all.loads[i].from.sent);
    all.load_count = all.store_count = 0;
    memset(all.committed, 0, sizeof all.committed);
}

// The thread's stores can no longer be waited for, and shared memory ends with its block.
void end_thread_of_bulk_copies() {
    const BulkCopies& all = here();
    for (size_t i = 0; i < all.store_count; ++i) {
        const Store& each = all.stores[i];
        if (each.thread != state.current || each.staged) continue;
        report(SHARED_RACE, each.caller, 0, "copy from shared memory that its block may leave before it is read: %s is missing",
               each.group == all.committed[state.current] ? "cp.async.bulk.commit_group" : "cp.async.bulk.wait_group.read");
    }
    if (all.store_count) perform_stores(all.committed[state.current] + 1, false);
}

bool has_bulk_copies(const Block& block, int object) {
    const BulkCopies& all = *block.bulk_copies;
    for (size_t i = 0; i < all.load_count; ++i) {
        if (all.loads[i].object == object) return true;
    }
    return false;
}

uintptr_t bulk_copy_in_flight(uintptr_t address) {
    for (size_t i = 0; i < here().load_count; ++i) {
        const Load& each = here().loads[i];
        if (each.block == state.block && address - reinterpret_cast<uintptr_t>(each.to) < each.from.bytes) return each.caller;
    }
    return 0;
}

static bool awaits(const BulkCopies& all, bool of_other_block, uintptr_t& issued_at) {
    for (size_t i = 0; i < all.load_count; ++i) {
        const Load& each = all.loads[i];
        if (of_other_block ? each.block != state.block : each.issued_by == state.block) continue;
        issued_at = each.caller;
        return true;
    }
    return false;
}

bool awaits_copies_of_others(uintptr_t& issued_at) {
    const Block* const other = other_of_pair(); // may count bytes that come here
    return awaits(here(), false, issued_at) || (other && !other_of_pair_has_ended() && awaits(*other->bulk_copies, true, issued_at));
}

bool reads_shared_of(const Block& sender, const Block& receiver, uintptr_t& issued_at) {
    const BulkCopies& all = *receiver.bulk_copies;
    for (size_t i = 0; i < all.load_count; ++i) {
        if (!all.loads[i].of_shared || all.loads[i].issued_by != &sender) continue;
        issued_at = all.loads[i].caller;
        return true;
    }
    return false;
}

bool complete_bulk_copies(int object, Published& published) {
    BulkCopies& all = here();
    size_t kept = 0;
    for (size_t i = 0; i < all.load_count; ++i) {
        const Load each = all.loads[i];
        if (each.object != object) {
            all.loads[kept++] = each;
            continue;
        }
        perform(each);
        const uint32_t stamp = new_stamp_of(each.agent);
        arrived(each.to, each.from.bytes, each.agent, stamp);
        published.known[each.agent] = stamp + 1;
    }
    const bool any = kept != all.load_count;
    all.load_count = kept;
    return any;
}

} // namespace peakgate

using namespace peakgate;

void peakgate_load_tile(void* to, const PeakgateTile* tile, const void* barrier, unsigned blocks, int pairs, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    load(tile_of(*tile, called_at), to, barrier, blocks, pairs == 2, called_at);
}

void peakgate_store_tile(const PeakgateTile* tile, const void* from, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    store(tile_of(*tile, called_at), from, called_at);
}

void peakgate_load_bulk(void* to, const void* from, unsigned bytes, const void* barrier, unsigned blocks, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    load(bytes_of(from, bytes, called_at), to, barrier, blocks, false, called_at);
}

void peakgate_send_bulk(void* to, const void* from, unsigned bytes, const void* barrier, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    bytes_of(from, bytes, called_at);
    check_alignment(to, PIECE, "destination", called_at);
    const int by = agent(STORES, state.current / WARP);
    check_agent_read(from, bytes, by, new_stamp_of(by), called_at);
    send(sent_bytes(from, bytes), to, barrier, called_at, false, true);
}

void peakgate_send_value(void* to, const void* value, unsigned bytes, const void* barrier, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    check_alignment(to, bytes, "destination", called_at);
    send(sent_bytes(value, bytes), to, barrier, called_at);
}

void peakgate_try_cancel(void* to, const void* barrier, int to_all, const void* caller) {
    uint32_t response[4];
    cancel_cluster(response);
    if (!to_all) return peakgate_send_value(to, response, sizeof response, barrier, caller);
    for (unsigned rank = 0; rank < cluster_blocks(); ++rank)
        peakgate_send_value(peakgate_map_shared(to, rank, caller), response, sizeof response, peakgate_map_shared(barrier, rank, caller), caller);
}

void peakgate_reduce_value(void* to, const void* value, unsigned bytes, const void* barrier, const PeakgateReduction* reduction,
                           const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    check_alignment(to, bytes, "destination", called_at);
    send(sent_bytes(value, bytes), to, barrier, called_at, false, false, *reduction);
}

void peakgate_store_bulk(void* to, const void* from, unsigned bytes, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    store(bytes_of(to, bytes, called_at), from, called_at);
}

void peakgate_reduce_bulk(void* to, const void* from, unsigned bytes, const PeakgateReduction* reduction, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    store(bytes_of(to, bytes, called_at), from, called_at, *reduction);
}

void peakgate_bulk_commit() { ++here().committed[state.current]; }

void peakgate_bulk_wait(int groups_left, int reads_only) {
    perform_stores(here().committed[state.current] - groups_left, reads_only != 0);
}
