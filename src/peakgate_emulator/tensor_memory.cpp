// Tensor memory (tcgen05): 128 lanes of 512 columns of 32 bits, of which a block allocates columns.
//
// Every operation on it is asynchronous and is performed at its issue here; what is checked is whether it has been
// ordered after those that accessed the same words before (PTX ISA 9.7.16.6.2):
//
//  earlier operation     | is before a later one
//  ----------------------+----------------------------------------------------------------------------------------------
//  ld, st of one warp    | for that warp after wait::ld or wait::st; for threads that synchronise with it after that
//  mma, cp of one thread | after a commit, for threads that wait for its barrier object, and who synchronise with them
//  mma of one warp       | for its next mma with the same accumulator, shape and kind, and for later ones that overwrite
//                        | what it multiplied
//  cp of one warp        | for its next mma, and for a cp after that
//
// Operations of a pair of blocks (cta_group::2) use the tensor memory of both, and are an operation in each of the two.
//
// Synchronisation with release and acquire suffices (9.7.16.6.3: the standard mechanisms apply too, and CUTLASS has no
// other); a `.relaxed` arrival needs fence::before_thread_sync before it, a `.relaxed` wait fence::after_thread_sync after
// it, but not before a deallocation (has_ended). An arrival in the scope of the block passes on to the other block of a
// pair what is complete, since that is the default of arrivals at its barrier objects (9.7.13.15.13). An agent of each
// warp (order.cpp) stands for its loads and stores, another one for its products and copies.
// Register dependencies on a load are respected without a wait (9.7.16.6.4.5).
#include "tensor_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace peakgate {

constexpr int FIRST_AGENT = agent(PRODUCTS, 0), AGENTS_OF_TENSORS = 2 * AGENTS_OF_A_KIND; // products and copies, then loads and stores
constexpr int MAX_ALLOCATIONS = TENSOR_COLUMNS / WARP;

enum Call : int { ALLOC, DEALLOC, RELINQUISH, COLUMNS }; // what a thread waits for; the last: free columns

// A call by one warp of each block of a pair.
struct Collective {
    Call what;
    uint32_t address;
    unsigned columns;
    int taken; // first column that it has allocated, plus one
};

struct TensorMemory {
    bool used, relinquished;
    uintptr_t relinquished_at;
    int blocks; // 1 or 2: cta_group of all its instructions; 0: not known yet
    uintptr_t blocks_given_at;
    Allocation allocations[MAX_ALLOCATIONS]; // those that were freed may be replaced
    int allocation_count, last_columns;
    Collective* collectives; // of this block with the other one of the pair, in their order
    size_t collective_count, collective_room;
    size_t met; // of them, those that the other block has called too; known here, since that block may have ended
    struct {
        uint32_t stamp;
        uintptr_t address;
    } of_peer[AGENTS_OF_A_KIND]; // the latest operation of each agent of the other block here
    uint8_t owner[TENSOR_COLUMNS]; // number of the allocation from 1; 0: none
    uintptr_t freed_at[TENSOR_COLUMNS];
    Operation* operations;
    size_t operation_count, operation_room;
    uint32_t last_checked; // an earlier operation that is known to be before the current one
    bool reported;         // the current operation
    // Per warp: stamps of the first load and of the first store that are not waited for, and of the latest of either.
    uint32_t unwaited[2][MAX_THREADS / WARP], latest[MAX_THREADS / WARP];
    uint32_t issued[MAX_THREADS];                     // stamp of a thread's latest product or copy
    // What a thread knew of its own block's agents, and of those of the other block of the pair, at its last
    // fence::before_thread_sync.
    uint32_t before[MAX_THREADS][2][AGENTS_OF_TENSORS];
    // What was complete when others arrived at relaxed barriers of the cluster that the thread has waited for.
    uint32_t complete[MAX_THREADS][2][AGENTS_OF_TENSORS];
    Word words[TENSOR_LANES * TENSOR_COLUMNS];
};

namespace {

TensorMemory& memory_of(Block& block) {
    TensorMemory*& memory = block.tensor_memory;
    if (!memory) memory = static_cast<TensorMemory*>(calloc(1, sizeof(TensorMemory)));
    if (!memory) abort();
    memory->used = true;
    return *memory;
}

TensorMemory& here() { return memory_of(*state.block); }

int own_warp() { return state.current / WARP; }
bool is_by_warp(const Operation& of) { return of.kind <= STORED; }
int warp_of(const Operation& of) { return of.issued.thread / WARP; }
uintptr_t place_of(const Operation& of) { return state.image + of.issued.address; }
int index_of_agent(int agent) { return agent - FIRST_AGENT; }
bool is_of_own_block(const Operation& of) { return of.block == state.block->number; }
bool is_of_own_warp(const Operation& of) { return is_by_warp(of) && is_of_own_block(of) && warp_of(of) == own_warp(); }
// The numbers of the two blocks of a pair, the own one first; without a pair twice the same.
uint32_t block_of_pair(int which) { return which && other_of_pair() ? state.block->number ^ 1 : state.block->number; }

// The loads and stores of a warp that have all been waited for.
uint32_t waited_until(int warp) {
    const TensorMemory& memory = here();
    uint32_t until = memory.latest[warp];
    for (const auto& unwaited : memory.unwaited)
        if (unwaited[warp] && unwaited[warp] <= until) until = unwaited[warp] - 1;
    return until;
}

// Whether all threads that execute an operation know of an earlier one.
bool known_to_all(const Operation& earlier, const Operation& later) {
    if (!is_by_warp(later)) return known_of_agent(earlier.block, state.current, earlier.agent, false) > earlier.stamp;
    const int first = warp_of(later) * WARP;
    bool known = true;
    for (int thread = first; thread < first + WARP; ++thread) known &= known_of_agent(earlier.block, thread, earlier.agent, false) > earlier.stamp;
    return known;
}

bool is_before(const Operation& earlier, const Operation& later) {
    if (is_of_own_warp(earlier)) return earlier.waited;
    return known_to_all(earlier, later);
}

// Products and copies of one warp that keep their order.
bool is_pipelined(const Operation& earlier, const Operation& later, bool was_consumed) {
    if (is_by_warp(earlier) || earlier.agent != later.agent || earlier.block != later.block) return false;
    if (was_consumed || earlier.kind == COPIED) return true;
    return later.kind == MULTIPLIED && earlier.accumulator == later.accumulator;
}

const char* name_of(TensorKind kind) {
    constexpr const char* names[] = {"ld", "st", "mma", "cp"};
    return names[kind];
}

const char* missing_between(const Operation& earlier) {
    if (is_by_warp(earlier) && !earlier.waited) return earlier.kind == LOADED ? "tcgen05.wait::ld" : "tcgen05.wait::st";
    if (known_of_agent(earlier.block, state.current, earlier.agent, true) > earlier.stamp) return "tcgen05.fence::after_thread_sync";
    if (!is_by_warp(earlier)) return "tcgen05.commit, or the wait for its phase,";
    const bool fenced = is_of_own_block(earlier) && here().before[earlier.issued.thread][0][index_of_agent(earlier.agent)] > earlier.stamp;
    return fenced ? "a barrier" : "a barrier, or tcgen05.fence::before_thread_sync,";
}

void report_unwritten(TensorMemory& memory, const Operation& by, int lane, int column) {
    if (memory.reported) return;
    memory.reported = true;
    report(UNINITIALISED_TENSOR, place_of(by), 0, "tcgen05.%s reads tensor memory that was not written (lane %d, column %d)", name_of(by.kind),
           lane, column);
}

void check_order(TensorMemory& memory, uint32_t earlier, uint32_t later, bool was_consumed, const char* how, int lane, int column) {
    if (!earlier || earlier == later || earlier == memory.last_checked) return;
    const Operation &first = memory.operations[earlier - 1], &second = memory.operations[later - 1];
    if (is_pipelined(first, second, was_consumed)) return; // not for other uses of the same operation
    if (is_before(first, second)) {
        memory.last_checked = earlier;
        return;
    }
    if (memory.reported) return;
    memory.reported = true;
    report(TENSOR_RACE, place_of(second), place_of(first), "tcgen05.%s %s tcgen05.%s (lane %d, column %d): %s is missing between the two",
           name_of(second.kind), how, name_of(first.kind), lane, column, missing_between(first));
}

void meet(void* brought, void (*together)(void* const*), const void* caller) {
    const PeakgateWarpCall call = {PEAKGATE_WARP_TOGETHER, ~0u, &brought, nullptr, sizeof brought, 0, WARP, together};
    peakgate_warp(&call, caller);
}

// ---- allocation (PTX ISA 9.7.16.7.1) ----

struct Asked {
    void* to;
    uint32_t address;
    unsigned columns;
    int blocks;
    uintptr_t caller;
    size_t collective; // out: number of the call among those of the pair
    bool taken;        // out: the columns
};

// What the lanes of a warp ask for, which must be the same.
const Asked& same_of_lanes(void* const* offered, const char* what) {
    const auto* const* lanes = reinterpret_cast<const Asked* const*>(offered);
    for (int lane = 1; lane < WARP; ++lane) {
        if (lanes[lane]->columns == lanes[0]->columns && lanes[lane]->address == lanes[0]->address && lanes[lane]->to == lanes[0]->to) continue;
        report(WARP_MASK, lanes[0]->caller, 0, "tcgen05.%s whose lanes give different operands", what);
        abandon_launch();
    }
    return *lanes[0];
}

void wake_at_tensor_memory(Block& block) {
    for (int i = 0; i < state.thread_count; ++i)
        if (block.threads[i].status == AT_TENSOR_MEMORY) block.threads[i].status = READY;
}

[[noreturn]] void refuse(uintptr_t caller, uintptr_t other, const char* what, unsigned number) {
    report(TENSOR_ACCESS, caller, other, what, number);
    abandon_launch();
}

// All instructions of a kernel have the same cta_group (PTX ISA 9.7.16.7.1). A pair needs a cluster.
void check_blocks(int blocks, const char* what, uintptr_t caller) {
    TensorMemory& memory = here();
    if (blocks != 1 && blocks != 2) refuse(caller, 0, "tcgen05 instruction with cta_group::%u, expected 1 or 2", static_cast<unsigned>(blocks));
    if (blocks == 2 && !other_of_pair()) {
        report(TENSOR_ACCESS, caller, 0, "tcgen05.%s.cta_group::2 by a block that is in no cluster of an even number of blocks", what);
        abandon_launch();
    }
    if (memory.blocks && memory.blocks != blocks) refuse(caller, memory.blocks_given_at, "tcgen05 instruction with cta_group::%u, but the block has used another one", static_cast<unsigned>(blocks));
    if (!memory.blocks) memory.blocks_given_at = caller;
    memory.blocks = blocks;
}

const char* name_of(Call call) {
    constexpr const char* names[] = {"alloc", "dealloc", "relinquish_alloc_permit", "alloc"};
    return names[call];
}

// A warp of each block calls the same (PTX ISA 9.7.16.5, issue granularity).
void begin_collective(Call what, void* const* offered) {
    auto* const* lanes = reinterpret_cast<Asked* const*>(offered);
    const Asked& asked = *lanes[0];
    if (asked.blocks == 1) return;
    TensorMemory &memory = here(), &other = memory_of(*other_of_pair());
    const size_t number = memory.collective_count;
    append(memory.collectives, memory.collective_count, memory.collective_room, {what, asked.address, asked.columns, 0});
    for (int lane = 0; lane < WARP; ++lane) lanes[lane]->collective = number;
    if (other_of_pair_has_ended() || number >= other.collective_count) return;
    const Collective& there = other.collectives[number];
    if (there.what != what || there.columns != asked.columns || there.address != asked.address) {
        report(TENSOR_ACCESS, asked.caller, 0, "tcgen05.%s (%u columns) meets tcgen05.%s (%u columns) of the other block of the pair", name_of(what),
               asked.columns, name_of(there.what), there.columns);
        abandon_launch();
    }
    memory.met = other.met = number + 1;
    ++state.progress;
    wake_at_tensor_memory(*other_of_pair());
}

// Hardware need not wait, so this orders nothing.
void end_collective(Call what, const Asked& asked) {
    while (asked.blocks == 2 && here().met <= asked.collective) {
        if (other_of_pair_has_ended()) {
            report(TENSOR_ACCESS, asked.caller, 0, "tcgen05.%s waits for the other block of the pair, which has ended without it", name_of(what));
            abandon_launch();
        }
        current_thread().barrier_site = what;
        wait_as(AT_TENSOR_MEMORY, asked.caller);
    }
}

int free_columns(const TensorMemory& memory, int columns) {
    for (int first = 0; first + columns <= TENSOR_COLUMNS; first += columns) {
        int free = 0;
        while (free < columns && !memory.owner[first + free]) ++free;
        if (free == columns) return first;
    }
    return -1;
}

void allocate(TensorMemory& memory, int first, const Asked& asked) {
    const auto columns = static_cast<int>(asked.columns);
    int slot = 0;
    while (slot < memory.allocation_count && memory.owner[memory.allocations[slot].first] == slot + 1) ++slot;
    if (slot == memory.allocation_count) ++memory.allocation_count;
    memory.allocations[slot] = {first, columns, asked.caller};
    memset(memory.owner + first, slot + 1, asked.columns);
    for (int lane = 0; lane < TENSOR_LANES; ++lane)
        for (int column = first; column < first + columns; ++column) memory.words[lane * TENSOR_COLUMNS + column] = {~0u, 0, 0, 0};
}

// The first column that is free, of a pair in both blocks, whose memory is allocated at once; -1: none.
int allocate(const Asked& asked) {
    TensorMemory& memory = here();
    const int first = free_columns(memory, static_cast<int>(asked.columns));
    if (asked.blocks == 1) {
        if (first >= 0) allocate(memory, first, asked);
        return first;
    }
    TensorMemory& other = memory_of(*other_of_pair());
    int& taken = memory.collectives[asked.collective].taken;
    if (taken) return taken - 1;
    if (first < 0 || free_columns(other, static_cast<int>(asked.columns)) != first) return -1;
    allocate(memory, first, asked);
    allocate(other, first, asked);
    taken = other.collectives[asked.collective].taken = first + 1;
    return first;
}

void ask_for_columns(void* const* offered) {
    const Asked& asked = same_of_lanes(offered, "alloc");
    const TensorMemory& memory = here();
    check_blocks(asked.blocks, "alloc", asked.caller);
    const auto columns = static_cast<int>(asked.columns);
    if (columns < WARP || columns > TENSOR_COLUMNS || (columns & (columns - 1)))
        refuse(asked.caller, 0, "tcgen05.alloc of %u columns, expected a power of two from 32 to 512", asked.columns);
    if (memory.relinquished) refuse(asked.caller, memory.relinquished_at, "tcgen05.alloc of %u columns after tcgen05.relinquish_alloc_permit", asked.columns);
    if (memory.last_columns && columns > memory.last_columns)
        refuse(asked.caller, 0, "tcgen05.alloc of %u columns, more than in the block's allocation before", asked.columns);
    here().last_columns = columns;
    begin_collective(ALLOC, offered);
}

// Allocates the columns, unless another warp has taken them.
void take_columns(void* const* offered) {
    auto* const* lanes = reinterpret_cast<Asked* const*>(offered);
    const Asked& asked = *lanes[0];
    const int first = allocate(asked);
    if (first < 0) return;
    for (int lane = 0; lane < WARP; ++lane) lanes[lane]->taken = true;
    const auto address = static_cast<uint32_t>(first);
    check_write(asked.to, sizeof address, asked.caller);
    memcpy(asked.to, &address, sizeof address);
}

// A load or store must have been waited for, a product or copy committed and waited for. Before a deallocation it
// suffices that accesses are not concurrent (PTX ISA 9.7.16.5), so that a relaxed barrier of the cluster will do.
bool has_ended(const Operation& of) {
    if (is_of_own_warp(of)) return of.waited;
    if (known_of_agent(of.block, state.current, of.agent, false) > of.stamp) return true;
    return here().complete[state.current][!is_of_own_block(of)][index_of_agent(of.agent)] > of.stamp;
}

// Reports an operation on deallocated columns of a block's memory that may not have ended.
void check_ended(const TensorMemory& memory, const Allocation& freed, uintptr_t caller) {
    uint32_t last = 0;
    for (int lane = 0; lane < TENSOR_LANES; ++lane) {
        for (int column = freed.first; column < freed.first + freed.columns; ++column) {
            const Word& word = memory.words[lane * TENSOR_COLUMNS + column];
            const uint32_t users[] = {word.write, word.load, word.consumed};
            for (const uint32_t user : users) {
                if (!user || user == last || has_ended(memory.operations[(last = user) - 1])) continue;
                const Operation& of = memory.operations[user - 1];
                report(TENSOR_RACE, caller, place_of(of), "tcgen05.dealloc of columns that tcgen05.%s may still access: %s is missing between the two",
                       name_of(of.kind), missing_between(of));
                return;
            }
        }
    }
}

void deallocate(void* const* offered) {
    const Asked& asked = same_of_lanes(offered, "dealloc");
    TensorMemory& memory = here();
    check_blocks(asked.blocks, "dealloc", asked.caller);
    int number = 0;
    while (number < memory.allocation_count && (static_cast<uint32_t>(memory.allocations[number].first) != asked.address || memory.owner[asked.address] != number + 1)) ++number;
    if (number == memory.allocation_count) {
        const bool was_freed = asked.address < TENSOR_COLUMNS && memory.freed_at[asked.address];
        refuse(asked.caller, was_freed ? memory.freed_at[asked.address] : 0, "tcgen05.dealloc of address %#x, where no allocation begins", asked.address);
    }
    const Allocation freed = memory.allocations[number];
    if (static_cast<unsigned>(freed.columns) != asked.columns)
        refuse(asked.caller, freed.caller, "tcgen05.dealloc of %u columns, other than were allocated", asked.columns);
    check_ended(memory, freed, asked.caller);
    // The blocks of a pair synchronise their accesses before they deallocate, since the call may not wait (9.7.16.7.1).
    if (asked.blocks == 2) check_ended(memory_of(*other_of_pair()), freed, asked.caller);
    for (int column = freed.first; column < freed.first + freed.columns; ++column) {
        memory.owner[column] = 0;
        memory.freed_at[column] = asked.caller;
    }
    wake_at_tensor_memory(*state.block);
    begin_collective(DEALLOC, offered);
}

void relinquish(void* const* offered) {
    const Asked& asked = same_of_lanes(offered, "relinquish_alloc_permit");
    check_blocks(asked.blocks, "relinquish_alloc_permit", asked.caller);
    here().relinquished = true;
    here().relinquished_at = asked.caller;
    begin_collective(RELINQUISH, offered);
}

// ---- loads and stores (PTX ISA 9.7.16.8) ----

struct Moved {
    uint32_t address;
    int shape, split, count, packs; // `count`: registers per lane
    uint32_t* registers;
    uintptr_t caller;
    bool loads;
};

// Lane and column of a register, from the first ones of the access: of 32 lanes each has its own, of 16 lanes a row has
// 64, 128 or 256 bits, which repeat to the right (PTX ISA 9.7.16.2.3).
void place_in_shape(int shape, int lane, int number, int& row, int& column) {
    if (shape == PEAKGATE_32X32B) {
        row = lane, column = number;
    } else if (shape == PEAKGATE_16X64B) {
        row = lane / 4 + lane % 2 * 8, column = number * 2 + lane / 2 % 2;
    } else if (shape == PEAKGATE_16X128B) {
        row = lane / 4 + number % 2 * 8, column = number / 2 * 4 + lane % 4;
    } else if (shape == PEAKGATE_16X256B) {
        row = lane / 4 + number / 2 % 2 * 8, column = number / 4 * 8 + lane % 4 * 2 + number % 2;
    } else {
        row = lane % (WARP / 2), column = number;
    }
}

int columns_of(const Moved& moved) {
    constexpr int per_register[] = {1, 2, 2, 2, 1}; // in the order of the shapes
    return moved.count * per_register[moved.shape] * (moved.packs ? 2 : 1);
}

// Lanes without sums, of products of 64 rows, may be loaded if their values are not used: they are NaN. A column of
// which no lane was written is a defect.
void check_written(const Part& part, int first_lane, int lanes, int first, int columns) {
    TensorMemory& memory = *part.memory;
    for (int column = first; column < first + columns; ++column) {
        bool written = false;
        for (int lane = first_lane; lane < first_lane + lanes; ++lane) written |= memory.words[lane * TENSOR_COLUMNS + column].write != 0;
        if (!written) report_unwritten(memory, operation(part), first_lane, column);
    }
}

void move(void* const* offered) {
    const auto* const* lanes = reinterpret_cast<const Moved* const*>(offered);
    const Moved& moved = *lanes[0];
    const char* const what = moved.loads ? "ld" : "st";
    for (int lane = 1; lane < WARP; ++lane) {
        if (lanes[lane]->address == moved.address) continue;
        report(WARP_MASK, moved.caller, 0, "tcgen05.%s whose lanes give different addresses", what);
        break; // the first lane's is used
    }
    const int first = static_cast<int>(moved.address & 0xffff), quarter = own_warp() % WARPS_OF_GROUP * WARP;
    // Hardware ignores the bits of the warp, and public kernels leave them out.
    int first_lane = static_cast<int>(moved.address >> 16);
    if (first_lane < WARP) first_lane += quarter;
    // The odd block of a pair may count its lanes as rows of the two, from 128 on.
    if (here().blocks == 2 && state.block->rank % 2 && first_lane >= TENSOR_LANES) first_lane -= TENSOR_LANES;
    const bool begins_well = first_lane == quarter || (moved.shape != PEAKGATE_32X32B && first_lane == quarter + WARP / 2);
    if (!begins_well) {
        report(TENSOR_ACCESS, moved.caller, 0, "tcgen05.%s from lane %d on by warp %d, which reaches lanes %d to %d", what, first_lane, own_warp(),
               quarter, quarter + WARP - 1);
        abandon_launch();
    }
    const Part whole = begin_operation(moved.loads ? LOADED : STORED, 0, 1, moved.caller).of[0];
    for (int half = 0; half <= (moved.shape == PEAKGATE_16X32BX2); ++half) {
        const int from = first + half * moved.split;
        check_columns(here(), from, columns_of(moved), what, moved.caller);
        if (moved.loads) check_written(whole, first_lane, moved.shape == PEAKGATE_32X32B ? WARP : WARP / 2, from, columns_of(moved));
    }
    for (int lane = 0; lane < WARP; ++lane) {
        for (int i = 0; i < moved.count; ++i) {
            uint32_t& bits = lanes[lane]->registers[i];
            int row, column;
            place_in_shape(moved.shape, lane, i, row, column);
            const int parts = moved.packs ? 2 : 1, from = first + (lane < WARP / 2 ? 0 : moved.split);
            if (moved.loads) bits = 0;
            for (int part = 0; part < parts; ++part) {
                Word& word = use_word(whole, first_lane + row, from + column * parts + part, moved.loads ? TENSOR_READS : TENSOR_WRITES);
                if (!moved.packs)
                    (moved.loads ? bits : word.bits) = moved.loads ? word.bits : bits;
                else if (moved.loads)
                    bits |= (word.bits & 0xffff) << (16 * part);
                else
                    word.bits = bits >> (16 * part) & 0xffff;
            }
        }
    }
}

void wait_for(bool stores) {
    TensorMemory& memory = here();
    uint32_t& first = memory.unwaited[stores][own_warp()];
    const auto by = agent(TENSORS, own_warp());
    for (size_t i = memory.operation_count; first && i-- > 0;) {
        Operation& each = memory.operations[i];
        if (each.agent != by || !is_of_own_block(each)) continue;
        if (each.stamp < first) break;
        each.waited |= each.kind == (stores ? STORED : LOADED);
    }
    first = 0;
    for (int lane = 0; lane < WARP; ++lane) learn(own_warp() * WARP + lane, by, waited_until(own_warp()));
}
void wait_for_loads(void* const*) { wait_for(false); }
void wait_for_stores(void* const*) { wait_for(true); }

} // namespace

Parts begin_operation(TensorKind kind, uint64_t accumulator, int blocks, uintptr_t caller) {
    TensorMemory& memory = here();
    spend_budget(caller);
    const bool by_warp = kind <= STORED;
    if (!by_warp) check_blocks(blocks, name_of(kind), caller);
    const int by = agent(by_warp ? TENSORS : PRODUCTS, own_warp());
    const uint32_t stamp = new_stamp_of(by);
    if (by_warp) {
        memory.latest[own_warp()] = stamp;
        uint32_t& first = memory.unwaited[kind == STORED][own_warp()];
        if (!first) first = stamp;
    } else {
        memory.issued[state.current] = stamp;
    }
    const Operation begun = {now(INITIALISED, INITIALISED, caller), stamp, static_cast<uint16_t>(by), kind, false, accumulator, state.block->number};
    const auto part_in = [&](TensorMemory& part) {
        append(part.operations, part.operation_count, part.operation_room, begun);
        part.last_checked = 0;
        part.reported = false;
        return Part{&part, static_cast<uint32_t>(part.operation_count)};
    };
    Parts parts = {};
    parts.own = blocks == 2 ? state.block->rank % 2 : 0;
    parts.of[parts.own] = part_in(memory);
    if (blocks == 2) {
        TensorMemory& other = memory_of(visit(state.block->rank ^ 1, caller));
        parts.of[parts.own ^ 1] = part_in(other);
        other.of_peer[index_of_agent(by)] = {stamp, caller};
    }
    return parts;
}

const Operation& operation(const Part& part) { return part.memory->operations[part.number - 1]; }

Word& use_word(const Part& part, int lane, int column, int use) {
    TensorMemory& memory = *part.memory;
    const uint32_t number = part.number;
    Word& word = memory.words[lane * TENSOR_COLUMNS + column];
    const Operation& by = operation(part);
    if ((use & TENSOR_READS) && !word.write && by.kind != LOADED) report_unwritten(memory, by, lane, column);
    check_order(memory, word.write, number, false, use & TENSOR_READS ? "reads what was written by" : "overwrites the result of", lane, column);
    if (use & TENSOR_WRITES) {
        check_order(memory, word.load, number, false, "overwrites what is read by", lane, column);
        check_order(memory, word.consumed, number, true, "overwrites what is read by", lane, column);
        word.write = number;
        word.load = word.consumed = 0;
    } else {
        (is_by_warp(by) ? word.load : word.consumed) = number;
    }
    return word;
}

void check_columns(const TensorMemory& memory, int first, int count, const char* what, uintptr_t caller) {
    const int owner = first >= 0 && first < TENSOR_COLUMNS ? memory.owner[first] : 0;
    for (int column = first; column < first + count; ++column) {
        const bool exists = column >= 0 && column < TENSOR_COLUMNS;
        if (exists && owner && memory.owner[column] == owner) continue;
        const uintptr_t freed_at = exists && !memory.owner[column] ? memory.freed_at[column] : 0;
        report(TENSOR_ACCESS, caller, freed_at, "tcgen05.%s of columns %d to %d, of which column %d is %s%s", what, first, first + count - 1, column,
               freed_at ? "deallocated" : owner ? "beyond the allocation" : "not allocated",
               &memory == state.block->tensor_memory ? "" : " in the other block of the pair");
        abandon_launch();
    }
}

void publish_tensors(Published& published) {
    const TensorMemory* const memory = state.block->tensor_memory;
    if (!memory || !memory->used) return;
    for (int i = 0; i < AGENTS_OF_TENSORS; ++i) {
        const uint32_t* const before = &memory->before[state.current][0][i];
        uint32_t& known = published.known[FIRST_AGENT + i];
        if (*before > known) known = *before;
        publish_agent(published.others, block_of_pair(1), FIRST_AGENT + i, before[AGENTS_OF_TENSORS]);
    }
}

void publish_tensors(Clock*& published, bool fenced) {
    const TensorMemory* const memory = state.block->tensor_memory;
    if (!memory || !memory->used) return;
    for (int which = 0; which < 2; ++which) {
        const uint32_t block = block_of_pair(which);
        for (int by = FIRST_AGENT; by < FIRST_AGENT + AGENTS_OF_TENSORS; ++by) {
            const uint32_t before = memory->before[state.current][which][index_of_agent(by)];
            publish_agent(published, block, by, fenced ? before : known_of_agent(block, state.current, by, false));
        }
    }
}

void complete_tensors(const Clock* published) {
    TensorMemory* const memory = state.block->tensor_memory;
    if (!published || !memory || !memory->used) return;
    for (int which = 0; which < 2; ++which) {
        for (int i = 0; i < AGENTS_OF_TENSORS; ++i) {
            const uint32_t known = known_of_agent(block_of_pair(which), *published, FIRST_AGENT + i);
            uint32_t& complete = memory->complete[state.current][which][i];
            if (known > complete) complete = known;
        }
    }
}

uint32_t last_of_peer(int agent, uintptr_t& issued_at) {
    const TensorMemory* const memory = state.block->tensor_memory;
    if (!memory || !memory->used) return 0;
    issued_at = memory->of_peer[index_of_agent(agent)].address;
    return memory->of_peer[index_of_agent(agent)].stamp;
}

bool report_tensor_memory() {
    for (int i = 0; i < state.thread_count; ++i) {
        if (state.threads[i].status != AT_TENSOR_MEMORY) continue;
        state.current = i;
        const auto what = static_cast<Call>(current_thread().barrier_site);
        report(TENSOR_ACCESS, current_thread().waits_at, 0, "tcgen05.%s waits for %s", name_of(what),
               what == COLUMNS ? "columns, which nobody deallocates" : "the other block of the pair, no warp of which executes it");
        return true;
    }
    return false;
}

void begin_block_of_tensor_memory(Block& block) {
    TensorMemory* const memory = block.tensor_memory;
    if (!memory || !memory->used) return;
    Operation* const operations = memory->operations;
    Collective* const collectives = memory->collectives;
    const size_t room = memory->operation_room, collective_room = memory->collective_room;
    memset(memory, 0, sizeof *memory);
    memory->operations = operations;
    memory->operation_room = room;
    memory->collectives = collectives;
    memory->collective_room = collective_room;
}

void end_thread_of_tensor_memory() {
    const TensorMemory* const memory = state.block->tensor_memory;
    if (!memory || !memory->used || state.block->alive > 1) return;
    for (int i = 0; i < memory->allocation_count; ++i) {
        const Allocation& each = memory->allocations[i];
        if (memory->owner[each.first] != i + 1) continue;
        report(TENSOR_ACCESS, each.caller, 0, "tcgen05.alloc of %d columns that are not deallocated when the block ends", each.columns);
        return;
    }
}

} // namespace peakgate

using namespace peakgate;

void peakgate_tensor_alloc(void* to, unsigned columns, int blocks, const void* caller) {
    Asked asked = {to, 0, columns, blocks, reinterpret_cast<uintptr_t>(caller), 0, false};
    meet(&asked, ask_for_columns, caller);
    end_collective(ALLOC, asked);
    for (;;) {
        meet(&asked, take_columns, caller);
        if (asked.taken) return;
        current_thread().barrier_site = COLUMNS;
        wait_as(AT_TENSOR_MEMORY, asked.caller);
    }
}

void peakgate_tensor_dealloc(uint32_t address, unsigned columns, int blocks, const void* caller) {
    Asked asked = {nullptr, address, columns, blocks, reinterpret_cast<uintptr_t>(caller), 0, false};
    meet(&asked, deallocate, caller);
    end_collective(DEALLOC, asked);
}

void peakgate_tensor_relinquish(int blocks, const void* caller) {
    Asked asked = {nullptr, 0, 0, blocks, reinterpret_cast<uintptr_t>(caller), 0, false};
    meet(&asked, relinquish, caller);
    end_collective(RELINQUISH, asked);
}

void peakgate_tensor_move(uint32_t address, int shape, int split, int count, int packs, int loads, uint32_t* registers, const void* caller) {
    Moved moved = {address, shape, split, count, packs, registers, reinterpret_cast<uintptr_t>(caller), loads != 0};
    meet(&moved, move, caller);
}

void peakgate_tensor_wait(int stores, const void* caller) { meet(nullptr, stores ? wait_for_stores : wait_for_loads, caller); }

void peakgate_tensor_fence(int after) {
    TensorMemory& memory = here();
    const int self = state.current, blocks = other_of_pair() ? 2 : 1;
    for (int which = 0; which < blocks; ++which) {
        const uint32_t block = block_of_pair(which);
        for (int i = 0; i < AGENTS_OF_TENSORS; ++i) {
            const uint32_t seen = known_of_agent(block, self, FIRST_AGENT + i, after != 0);
            if (!after)
                memory.before[self][which][i] = seen;
            else if (seen && known_of_agent(block, self, FIRST_AGENT + i, false) < seen)
                learn_of_block(block, self, FIRST_AGENT + i, seen - 1);
        }
    }
}

void peakgate_tensor_commit(void* barrier, int blocks, unsigned to_blocks, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    check_blocks(blocks, "commit", called_at);
    const uint32_t stamp = here().issued[state.current];
    if (!to_blocks) arrive_for_agent(barrier, agent(PRODUCTS, own_warp()), stamp, called_at);
    for (unsigned left = to_blocks; left; left &= left - 1) {
        const void* const there = peakgate_map_shared(barrier, static_cast<unsigned>(__builtin_ctz(left)), caller);
        arrive_for_agent(there, agent(PRODUCTS, own_warp()), stamp, called_at);
    }
}
