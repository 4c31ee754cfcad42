// The scheduling of blocks: one after the other, each to its end, unless it waits for the grid or polls a value that
// only another block can change. Then it is suspended with its shared memory, and resumed when something has changed.
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace peakgate {
namespace {

Block** blocks; // blocks that have begun and not ended, in the order in which they began
size_t block_count, block_room;
Block** spare;
size_t spare_count, spare_room;
uint32_t begun;    // blocks of this launch that have begun, or were cancelled
uint32_t skipped;  // blocks that were cancelled after those of the cluster that begins now
size_t most_alive; // largest number of blocks alive at once

// Number of blocks that begin before polling ones are resumed.
constexpr size_t BEGIN_FIRST = 8;
// Unchanged polls of all living threads that count as a deadlock: a kernel's loops may give up after some tries.
constexpr uint64_t ROUNDS = 200, POLLS = 100000;

} // namespace

void give_back(Block* block) {
    append(spare, spare_count, spare_room, block);
}

Block* new_block() {
    if (spare_count) return spare[--spare_count];
    auto* block = static_cast<Block*>(calloc(1, sizeof(Block)));
    if (!block) return nullptr;
    block->order = new_order();
    block->warps = new_warps();
    block->named_barriers = new_named_barriers();
    block->sync_objects = new_sync_objects();
    block->async_copies = new_async_copies();
    block->bulk_copies = new_bulk_copies();
    block->tensor_cores = new_tensor_cores();
    const bool ready = block->order && block->warps && block->named_barriers && block->sync_objects &&
                       block->async_copies && block->bulk_copies && block->tensor_cores;
    return ready ? block : nullptr;
}

namespace {

void make_current(Block& block) {
    state.block = &block;
    state.threads = block.threads;
    state.cluster = block.cluster;
    peakgate_block_x = block.index.x;
    peakgate_block_y = block.index.y;
    peakgate_block_z = block.index.z;
    peakgate_own_window = block.cluster ? static_cast<unsigned>(block.rank) << PEAKGATE_RANK_SHIFT : 0;
}

bool set_aside(Block& block) {
    block.epoch = state.epoch;
    block.block_epoch = state.block_epoch;
    block.shared_since = state.shared_since;
    block.crossed = state.crossed;
    return save_shared(block);
}

// In shuffled thread orders, groups of four or two neighbouring blocks are permuted too. The last group begins first:
// its last block, which often gathers what the others leave, may forget to wait for them.
uint32_t shuffled(uint32_t number, uint32_t total) {
    if (state.launch.schedule < 2) return number;
    if (const uint32_t size = cluster_blocks(); size > 1) // blocks of one cluster begin one after the other
        return number / size * size + (number + state.launch.schedule) % size;
    const uint32_t from_last = total - 1 - (total > 4 ? (number + total - 4) % total : number);
    if ((from_last | 3) < total) return total - 1 - (from_last ^ (1 + state.launch.schedule % 3));
    return (from_last | 1) < total ? total - 1 - (from_last ^ 1) : total - 1 - from_last;
}

bool begin_block(uint32_t number) {
    if (state.block && state.block->alive && !set_aside(*state.block)) return false;
    const bool alone = cluster_blocks() == 1;
    Block* block = alone ? new_block() : block_of_cluster(number);
    if (!block) return false;
    if (alone) block->index = index_of_block(number);
    size_t slot = 0; // the first stacks that no other block uses
    for (bool taken = true; taken; slot += taken) {
        taken = false;
        for (size_t i = 0; i < block_count; ++i)
            taken |= blocks[i]->first_stack == static_cast<int>(slot) * state.thread_count;
    }
    block->first_stack = static_cast<int>(slot) * state.thread_count;
    block->number = number;
    block->waits_for_grid = false;
    if (!ready_stacks(static_cast<size_t>(block->first_stack), static_cast<size_t>(state.thread_count))) return false;
    append(blocks, block_count, block_room, block);
    make_current(*block);
    if (!use_shadow_of(*block)) return false;
    begin_threads();
    return true;
}

// Resumes a block and suspends the one that ran before.
bool take_up(Block& block) {
    if (&block == state.block) return true;
    if (state.block && state.block->alive && !set_aside(*state.block)) return false;
    make_current(block);
    state.epoch = block.epoch;
    state.block_epoch = block.block_epoch;
    state.shared_since = block.shared_since;
    state.crossed = block.crossed;
    load_shared(block);
    return use_shadow_of(block);
}

void retire(size_t place) {
    if (blocks[place]->cluster) leave_cluster(*blocks[place]);
    give_back(blocks[place]);
    for (size_t i = place; i + 1 < block_count; ++i) blocks[i] = blocks[i + 1];
    --block_count;
}

enum Worth { CHANGED, INTERRUPTED, ANYHOW };

// Whether something has changed for a block since it was suspended, or one of its threads was interrupted.
bool is_worth_running(const Block& block, Worth worth) {
    if (block.waits_for_grid) return false;
    if (worth == ANYHOW) return true;
    if (worth == INTERRUPTED) return block.has_interrupted;
    if (block.seen_progress == state.progress) return false;
    for (int t = block.pollers_from; t < block.pollers_to; ++t) {
        if (block.threads[t].status == POLLING && may_see_news(block, block.threads[t])) return true;
    }
    return block.pollers == 0;
}

// The next block after `place` that is worth running.
size_t worth_running(size_t place, Worth worth) {
    for (size_t step = 1; step <= block_count; ++step) {
        const size_t next = (place + step) % block_count;
        if (is_worth_running(*blocks[next], worth)) return next;
    }
    return block_count;
}

bool polls(const Block& block, uintptr_t address) {
    for (int t = block.pollers_from; t < block.pollers_to; ++t) {
        const Thread& thread = block.threads[t];
        if (thread.status == POLLING && thread.polled == address && !thread.interrupted) return true;
    }
    return false;
}

size_t count_pollers() {
    size_t count = 0;
    for (size_t i = 0; i < block_count; ++i) count += static_cast<size_t>(blocks[i]->pollers);
    return count;
}

size_t count_alive() {
    size_t count = 0;
    for (size_t i = 0; i < block_count; ++i) count += static_cast<size_t>(blocks[i]->alive);
    return count;
}

bool waits_for_itself(const Block& block) {
    for (int t = 0; t < state.thread_count; ++t) {
        const Status status = block.threads[t].status;
        if (status != DONE && status != AT_CLUSTER_BARRIER) return true;
    }
    return false;
}

bool waits_within_cluster(const Block& block) {
    for (int t = 0; t < state.thread_count; ++t) {
        const Thread& thread = block.threads[t];
        if (thread.status == POLLING ? !thread.polled_object : thread.status == AT_GRID_BARRIER) return false;
    }
    return true;
}

// Whether no block that begins later can change what this one waits for.
bool is_cut_off(const Block& block) {
    if (!block.cluster) return waits_within_cluster(block);
    uint32_t others = 0; // blocks of its cluster, including itself
    for (size_t i = 0; i < block_count; ++i) {
        if (blocks[i]->cluster != block.cluster) continue;
        if (!waits_within_cluster(*blocks[i])) return false;
        ++others;
    }
    return others == cluster_blocks();
}

// Reports the first polling thread of a block that no later block can help, if there is one.
[[gnu::noinline]] void report_deadlock(bool more_to_begin) {
    Block* stuck = nullptr;
    int poller = 0;
    bool decided = false;
    for (size_t i = 0; i < block_count && !decided; ++i) {
        for (int t = 0; t < state.thread_count && !decided; ++t) {
            if (blocks[i]->threads[t].status != POLLING) continue;
            decided = !more_to_begin || is_cut_off(*blocks[i]);
            if (stuck && !decided) break;
            stuck = blocks[i];
            poller = t;
        }
    }
    make_current(*stuck);
    state.current = poller;
    const Thread& thread = current_thread();
    if (!decided) {
        report(NOT_EMULATED, thread.waits_at, 0, "polling for later blocks by more than %zu threads", MAX_LIVE_THREADS);
        return;
    }
    const size_t polling = count_pollers(), alive = count_alive();
    char others[80] = "";
    if (alive > polling) snprintf(others, sizeof others, ", %zu wait at barriers", alive - polling);
    char object[100] = "";
    if (thread.polled_object) {
        memcpy(object, ": ", 3);
        describe_object(thread.polled_object - 1, object + 2, sizeof object - 2);
    }
    report(ENDLESS_LOOP, thread.waits_at, 0, "deadlock: %zu thread%s a value that no thread can change any more%s%s", polling,
           polling == 1 ? " polls" : "s poll", others, object);
}

void release_grid() {
    state.ordered_epoch = ++state.last_epoch;
    for (size_t i = 0; i < block_count; ++i) {
        Block& block = *blocks[i];
        block.waits_for_grid = false;
        block.seen_progress = state.progress - 1;
        for (int t = 0; t < state.thread_count; ++t) {
            if (block.threads[t].status == AT_GRID_BARRIER) block.threads[t].status = READY;
        }
    }
}

bool all_wait_for_grid() {
    for (size_t i = 0; i < block_count; ++i) {
        if (!blocks[i]->waits_for_grid) return false;
    }
    return true;
}

// Runs blocks until all have ended; false if memory cannot be allocated.
bool run_blocks(uint32_t total) {
    size_t place = 0;
    uint64_t idle = 0, seen = state.progress;
    bool fresh = false;
    while (!is_abandoned() && (begun < total || block_count)) {
        const bool room = begun < total && block_count < most_alive;
        const size_t changed = block_count ? worth_running(place, CHANGED) : 0;
        // One other block at most begins before an interrupted one continues, or it would see none of them half-way.
        const size_t waiting = fresh && block_count ? worth_running(place, INTERRUPTED) : block_count;
        const bool held_up = waiting < block_count && blocks[waiting] != state.block;
        fresh = room && !held_up && (block_count < BEGIN_FIRST || changed == block_count || state.launch.cooperative);
        if (!fresh && block_count && all_wait_for_grid()) {
            if (block_count < total) {
                make_current(*blocks[0]);
                report(DIVERGENT_BARRIER, current_thread().waits_at, 0,
                       "%zu blocks of the grid wait for all of its %u, of which the others have ended", block_count, total);
                break;
            }
            release_grid();
            place = block_count - 1;
            continue;
        }
        bool anyhow = false;
        if (fresh) {
            if (!begin_block(shuffled(begun, total))) return false;
            if (++begun % cluster_blocks() == 0) begun += skipped, skipped = 0;
            place = block_count - 1;
        } else {
            const size_t interrupted = changed < block_count ? changed : worth_running(place, INTERRUPTED);
            anyhow = interrupted == block_count;
            place = anyhow ? worth_running(place, ANYHOW) : interrupted;
            if (!take_up(*blocks[place])) return false;
            if (state.epoch < state.ordered_epoch) block_met();
        }
        run_threads(anyhow);
        if (is_abandoned()) break;
        if (state.block->alive == 0) {
            end_block_of_order();
            retire(place);
            place = place ? place - 1 : block_count ? block_count - 1 : 0;
        } else {
            Block& block = *state.block;
            int at_grid = 0;
            block.pollers_from = block.pollers_to = block.pollers = 0;
            block.has_interrupted = false;
            for (int t = 0; t < state.thread_count; ++t) {
                const Thread& thread = block.threads[t];
                at_grid += thread.status == AT_GRID_BARRIER;
                if (thread.status != POLLING) continue;
                if (!block.pollers) block.pollers_from = t;
                block.pollers_to = t + 1;
                ++block.pollers;
                block.has_interrupted |= thread.interrupted;
            }
            block.waits_for_grid = at_grid == block.alive;
            block.seen_progress = state.progress;
        }
        idle = state.progress == seen ? idle + 1 : 0;
        seen = state.progress;
        if (!block_count || (begun < total && block_count < most_alive) || idle < ROUNDS * block_count) continue;
        const size_t polling = count_pollers();
        if (!polling && block_count && state.cluster) {
            for (size_t i = 0; i < block_count; ++i) { // the others usually wait for this one
                if (waits_for_itself(*blocks[i])) place = i;
            }
            if (!take_up(*blocks[place < block_count ? place : 0])) return false;
            abandon_stuck();
            break;
        }
        if (!polling || idle < (ROUNDS + POLLS / polling) * block_count) continue;
        report_deadlock(begun < total);
        break;
    }
    return true;
}

} // namespace

bool somebody_else_polls(uintptr_t address) {
    for (size_t i = 0; i < block_count; ++i) {
        if (blocks[i] != state.block && polls(*blocks[i], address)) return true;
    }
    return false;
}

InBlock::InBlock(Block& block) : from(state.block), thread(state.current) {
    if (!take_up(block)) abort();
}

InBlock::~InBlock() {
    if (!take_up(*from)) abort();
    state.current = thread;
    use_clock_of(thread);
}

bool run_grid() {
    const uint32_t* grid = state.launch.grid;
    bool ready = true;
    do {
        begun = skipped = 0;
        state.block = nullptr;
        state.cluster = nullptr;
        while (block_count) retire(block_count - 1); // after an abandoned launch
        forget_clusters();
        most_alive = MAX_LIVE_THREADS / static_cast<size_t>(state.thread_count);
        ready = run_blocks(grid[0] * grid[1] * grid[2]);
    } while (ready && take_restart());
    return ready;
}

void cancel_cluster(uint32_t* response) {
    const uint32_t* grid = state.launch.grid;
    const uint32_t total = grid[0] * grid[1] * grid[2], size = cluster_blocks();
    const uint32_t next = (begun + size - 1) / size * size, first = next + skipped; // of the first cluster that has not begun
    memset(response, 0, 4 * sizeof *response);
    if (first >= total || state.launch.cooperative) return;
    (begun == next ? begun : skipped) += size;
    const uint3 index = index_of_block(size > 1 ? first : shuffled(first, total));
    const uint32_t cancelled[] = {1, index.x, index.y, index.z};
    memcpy(response, cancelled, sizeof cancelled);
}

} // namespace peakgate
