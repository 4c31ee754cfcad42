// Tensor memory (tcgen05): 128 lanes of 512 columns of 32 bits, of which a block allocates columns.
//
// Every operation on it is asynchronous and is performed at its issue here; what is checked is whether it has been
// ordered after those that accessed the same words before (PTX ISA, memory consistency model of tcgen05):
//
//  earlier operation     | is before a later one
//  ----------------------+----------------------------------------------------------------------------------------------
//  ld, st of one warp    | for that warp after wait::ld or wait::st; for threads that synchronise with it after that
//  mma, cp of one thread | after a commit, for threads that wait for its barrier object, and who synchronise with them
//  mma of one warp       | for its next mma with the same accumulator, shape and kind, and for later ones that overwrite
//                        | what it multiplied
//  cp of one warp        | for its next mma, and for a cp after that
//
// Synchronisation with release and acquire suffices (the standard mechanisms apply to tcgen05 too, and CUTLASS has no
// other); a `.relaxed` arrival needs fence::before_thread_sync before it, a `.relaxed` wait fence::after_thread_sync after
// it. An agent of each warp (order.cpp) stands for its loads and stores, another one for its products and copies.
// Register dependencies on a load are respected without a wait.
#include "tensor_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace peakgate {

constexpr int FIRST_AGENT = agent(PRODUCTS, 0), AGENTS_OF_TENSORS = 2 * AGENTS_OF_A_KIND; // products and copies, then loads and stores
constexpr int MAX_ALLOCATIONS = TENSOR_COLUMNS / WARP;

struct TensorMemory {
    bool used, relinquished;
    uintptr_t relinquished_at;
    Allocation allocations[MAX_ALLOCATIONS];
    int allocation_count, last_columns;
    uint8_t owner[TENSOR_COLUMNS]; // number of the allocation from 1; 0: none
    uintptr_t freed_at[TENSOR_COLUMNS];
    Operation* operations;
    size_t operation_count, operation_room;
    uint32_t last_checked; // an earlier operation that is known to be before the current one
    bool reported;         // the current operation
    // Per warp: stamps of the first load and of the first store that are not waited for, and of the latest of either.
    uint32_t unwaited[2][MAX_THREADS / WARP], latest[MAX_THREADS / WARP];
    uint32_t issued[MAX_THREADS];                     // stamp of a thread's latest product or copy
    uint32_t before[MAX_THREADS][AGENTS_OF_TENSORS];  // what a thread knew at its last fence::before_thread_sync
    Word words[TENSOR_LANES * TENSOR_COLUMNS];
};

namespace {

TensorMemory& here() {
    TensorMemory*& memory = state.block->tensor_memory;
    if (!memory) memory = static_cast<TensorMemory*>(calloc(1, sizeof(TensorMemory)));
    if (!memory) abort();
    memory->used = true;
    return *memory;
}

int own_warp() { return state.current / WARP; }
bool is_by_warp(const Operation& of) { return of.kind <= STORED; }
int warp_of(const Operation& of) { return of.issued.thread / WARP; }
uintptr_t place_of(const Operation& of) { return state.image + of.issued.address; }
int index_of_agent(int agent) { return agent - FIRST_AGENT; }

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
    if (!is_by_warp(later)) return state.known[earlier.agent] > earlier.stamp;
    const int first = warp_of(later) * WARP;
    bool known = true;
    for (int thread = first; thread < first + WARP; ++thread) known &= known_of_agent(thread, earlier.agent, false) > earlier.stamp;
    return known;
}

bool is_before(const Operation& earlier, const Operation& later) {
    if (is_by_warp(earlier) && warp_of(earlier) == own_warp()) return earlier.waited;
    return known_to_all(earlier, later);
}

// Products and copies of one warp that keep their order.
bool is_pipelined(const Operation& earlier, const Operation& later, bool was_consumed) {
    if (is_by_warp(earlier) || earlier.agent != later.agent) return false;
    if (was_consumed || earlier.kind == COPIED) return true;
    return later.kind == MULTIPLIED && earlier.accumulator == later.accumulator;
}

const char* name_of(TensorKind kind) {
    constexpr const char* names[] = {"ld", "st", "mma", "cp"};
    return names[kind];
}

const char* missing_between(const Operation& earlier) {
    if (is_by_warp(earlier) && !earlier.waited) return earlier.kind == LOADED ? "tcgen05.wait::ld" : "tcgen05.wait::st";
    if (known_of_agent(state.current, earlier.agent, true) > earlier.stamp) return "tcgen05.fence::after_thread_sync";
    if (!is_by_warp(earlier)) return "tcgen05.commit, or the wait for its phase,";
    const bool fenced = here().before[earlier.issued.thread][index_of_agent(earlier.agent)] > earlier.stamp;
    return fenced ? "a barrier" : "a barrier, or tcgen05.fence::before_thread_sync,";
}

void report_unwritten(const Operation& by, int lane, int column) {
    TensorMemory& memory = here();
    if (memory.reported) return;
    memory.reported = true;
    report(UNINITIALISED_TENSOR, place_of(by), 0, "tcgen05.%s reads tensor memory that was not written (lane %d, column %d)", name_of(by.kind),
           lane, column);
}

void check_order(uint32_t earlier, uint32_t later, bool was_consumed, const char* how, int lane, int column) {
    TensorMemory& memory = here();
    if (!earlier || earlier == later || earlier == memory.last_checked) return;
    const Operation &first = operation(earlier), &second = operation(later);
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

// ---- allocation ----

struct Asked {
    void* to;
    uint32_t address;
    unsigned columns;
    uintptr_t caller;
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

[[noreturn]] void refuse(uintptr_t caller, uintptr_t other, const char* what, unsigned number) {
    report(TENSOR_ACCESS, caller, other, what, number);
    abandon_launch();
}

int free_columns(int columns) {
    const TensorMemory& memory = here();
    for (int first = 0; first + columns <= TENSOR_COLUMNS; first += columns) {
        int free = 0;
        while (free < columns && !memory.owner[first + free]) ++free;
        if (free == columns) return first;
    }
    return -1;
}

void allocate(void* const* offered) {
    const Asked& asked = same_of_lanes(offered, "alloc");
    TensorMemory& memory = here();
    const auto columns = static_cast<int>(asked.columns);
    if (columns < WARP || columns > TENSOR_COLUMNS || (columns & (columns - 1)))
        refuse(asked.caller, 0, "tcgen05.alloc of %u columns, expected a power of two from 32 to 512", asked.columns);
    if (memory.relinquished) refuse(asked.caller, memory.relinquished_at, "tcgen05.alloc of %u columns after tcgen05.relinquish_alloc_permit", asked.columns);
    if (memory.last_columns && columns > memory.last_columns)
        refuse(asked.caller, 0, "tcgen05.alloc of %u columns, more than in the block's allocation before", asked.columns);
    const int first = free_columns(columns);
    if (first < 0) {
        report(NOT_EMULATED, asked.caller, 0, "tcgen05.alloc that waits until columns are deallocated");
        abandon_launch();
    }
    memory.last_columns = columns;
    memory.allocations[memory.allocation_count++] = {first, columns, asked.caller};
    memset(memory.owner + first, memory.allocation_count, asked.columns);
    for (int lane = 0; lane < TENSOR_LANES; ++lane)
        for (int column = first; column < first + columns; ++column) memory.words[lane * TENSOR_COLUMNS + column] = {~0u, 0, 0, 0};
    const auto address = static_cast<uint32_t>(first);
    check_write(asked.to, sizeof address, asked.caller);
    memcpy(asked.to, &address, sizeof address);
}

// A load or store must have been waited for, a product or copy committed and waited for.
bool has_ended(const Operation& of) {
    if (is_by_warp(of) && warp_of(of) == own_warp()) return of.waited;
    return state.known[of.agent] > of.stamp;
}

// Reports an operation on deallocated columns that may not have ended.
void check_ended(const Allocation& freed, uintptr_t caller) {
    const TensorMemory& memory = here();
    uint32_t last = 0;
    for (int lane = 0; lane < TENSOR_LANES; ++lane) {
        for (int column = freed.first; column < freed.first + freed.columns; ++column) {
            const Word& word = memory.words[lane * TENSOR_COLUMNS + column];
            const uint32_t users[] = {word.write, word.load, word.consumed};
            for (const uint32_t user : users) {
                if (!user || user == last || has_ended(operation(last = user))) continue;
                const Operation& of = operation(user);
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
    int number = 0;
    while (number < memory.allocation_count && (static_cast<uint32_t>(memory.allocations[number].first) != asked.address || memory.owner[asked.address] != number + 1)) ++number;
    if (number == memory.allocation_count) {
        const bool was_freed = asked.address < TENSOR_COLUMNS && memory.freed_at[asked.address];
        refuse(asked.caller, was_freed ? memory.freed_at[asked.address] : 0, "tcgen05.dealloc of address %#x, where no allocation begins", asked.address);
    }
    const Allocation freed = memory.allocations[number];
    if (static_cast<unsigned>(freed.columns) != asked.columns)
        refuse(asked.caller, freed.caller, "tcgen05.dealloc of %u columns, other than were allocated", asked.columns);
    check_ended(freed, asked.caller);
    for (int column = freed.first; column < freed.first + freed.columns; ++column) {
        memory.owner[column] = 0;
        memory.freed_at[column] = asked.caller;
    }
}

void relinquish(void* const* offered) {
    const Asked& asked = same_of_lanes(offered, "relinquish_alloc_permit");
    here().relinquished = true;
    here().relinquished_at = asked.caller;
}

// ---- loads and stores ----

struct Moved {
    uint32_t address;
    int shape, count, packs; // registers per lane
    uint32_t* registers;
    uintptr_t caller;
    bool loads;
};

// Lane and column of a register, from the first ones of the access: of 32 lanes each has its own, of 16 lanes a row has
// 64, 128 or 256 bits, which repeat to the right (PTX ISA, data movement shapes).
void place_in_shape(int shape, int lane, int number, int& row, int& column) {
    if (shape == PEAKGATE_32X32B) {
        row = lane, column = number;
    } else if (shape == PEAKGATE_16X64B) {
        row = lane / 4 + lane % 2 * 8, column = number * 2 + lane / 2 % 2;
    } else if (shape == PEAKGATE_16X128B) {
        row = lane / 4 + number % 2 * 8, column = number / 2 * 4 + lane % 4;
    } else {
        row = lane / 4 + number / 2 % 2 * 8, column = number / 4 * 8 + lane % 4 * 2 + number % 2;
    }
}

int columns_of(const Moved& moved) {
    constexpr int per_register[] = {1, 2, 2, 2}; // in the order of the shapes
    return moved.count * per_register[moved.shape] * (moved.packs ? 2 : 1);
}

// Lanes without sums, of products of 64 rows, may be loaded if their values are not used: they are NaN. A column of
// which no lane was written is a defect.
void check_written(uint32_t number, int first_lane, int lanes, int first, int columns) {
    const TensorMemory& memory = here();
    for (int column = first; column < first + columns; ++column) {
        bool written = false;
        for (int lane = first_lane; lane < first_lane + lanes; ++lane) written |= memory.words[lane * TENSOR_COLUMNS + column].write != 0;
        if (!written) report_unwritten(operation(number), first_lane, column);
    }
}

void move(void* const* offered) {
    const auto* const* lanes = reinterpret_cast<const Moved* const*>(offered);
    const Moved& moved = *lanes[0];
    const char* const what = moved.loads ? "ld" : "st";
    for (int lane = 1; lane < WARP; ++lane) {
        if (lanes[lane]->address == moved.address) continue;
        report(WARP_MASK, moved.caller, 0, "tcgen05.%s whose lanes give different addresses", what);
        abandon_launch();
    }
    const int first = static_cast<int>(moved.address & 0xffff), quarter = own_warp() % WARPS_OF_GROUP * WARP;
    // Hardware ignores the bits of the warp, and public kernels leave them out.
    int first_lane = static_cast<int>(moved.address >> 16);
    if (first_lane < WARP) first_lane += quarter;
    const bool begins_well = first_lane == quarter || (moved.shape != PEAKGATE_32X32B && first_lane == quarter + WARP / 2);
    if (!begins_well) {
        report(TENSOR_ACCESS, moved.caller, 0, "tcgen05.%s from lane %d on by warp %d, which reaches lanes %d to %d", what, first_lane, own_warp(),
               quarter, quarter + WARP - 1);
        abandon_launch();
    }
    check_columns(first, columns_of(moved), what, moved.caller);
    const uint32_t number = begin_operation(moved.loads ? LOADED : STORED, 0, moved.caller);
    if (moved.loads) check_written(number, first_lane, moved.shape == PEAKGATE_32X32B ? WARP : WARP / 2, first, columns_of(moved));
    for (int lane = 0; lane < WARP; ++lane) {
        for (int i = 0; i < moved.count; ++i) {
            uint32_t& bits = lanes[lane]->registers[i];
            int row, column;
            place_in_shape(moved.shape, lane, i, row, column);
            const int parts = moved.packs ? 2 : 1;
            if (moved.loads) bits = 0;
            for (int part = 0; part < parts; ++part) {
                Word& word = use_word(number, first_lane + row, first + column * parts + part, moved.loads ? TENSOR_READS : TENSOR_WRITES);
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
        if (each.agent != by) continue;
        if (each.stamp < first) break;
        each.waited |= each.kind == (stores ? STORED : LOADED);
    }
    first = 0;
    for (int lane = 0; lane < WARP; ++lane) learn(own_warp() * WARP + lane, by, waited_until(own_warp()));
}
void wait_for_loads(void* const*) { wait_for(false); }
void wait_for_stores(void* const*) { wait_for(true); }

} // namespace

uint32_t begin_operation(TensorKind kind, uint64_t accumulator, uintptr_t caller) {
    TensorMemory& memory = here();
    spend_budget(caller);
    const bool by_warp = kind <= STORED;
    const int by = agent(by_warp ? TENSORS : PRODUCTS, own_warp());
    const uint32_t stamp = new_stamp_of(by);
    if (by_warp) {
        memory.latest[own_warp()] = stamp;
        uint32_t& first = memory.unwaited[kind == STORED][own_warp()];
        if (!first) first = stamp;
    } else {
        memory.issued[state.current] = stamp;
    }
    append(memory.operations, memory.operation_count, memory.operation_room,
           {now(INITIALISED, INITIALISED, caller), stamp, static_cast<uint16_t>(by), kind, false, accumulator});
    memory.last_checked = 0;
    memory.reported = false;
    return static_cast<uint32_t>(memory.operation_count);
}

const Operation& operation(uint32_t number) { return here().operations[number - 1]; }

Word& use_word(uint32_t number, int lane, int column, int use) {
    TensorMemory& memory = here();
    Word& word = memory.words[lane * TENSOR_COLUMNS + column];
    const Operation& by = operation(number);
    if ((use & TENSOR_READS) && !word.write && by.kind != LOADED) report_unwritten(by, lane, column);
    check_order(word.write, number, false, use & TENSOR_READS ? "reads what was written by" : "overwrites the result of", lane, column);
    if (use & TENSOR_WRITES) {
        check_order(word.load, number, false, "overwrites what is read by", lane, column);
        check_order(word.consumed, number, true, "overwrites what is read by", lane, column);
        word.write = number;
        word.load = word.consumed = 0;
    } else {
        (is_by_warp(by) ? word.load : word.consumed) = number;
    }
    return word;
}

void check_columns(int first, int count, const char* what, uintptr_t caller) {
    const TensorMemory& memory = here();
    const int owner = first < TENSOR_COLUMNS ? memory.owner[first] : 0;
    for (int column = first; column < first + count; ++column) {
        const bool exists = column < TENSOR_COLUMNS;
        if (exists && owner && memory.owner[column] == owner) continue;
        const uintptr_t freed_at = exists && !memory.owner[column] ? memory.freed_at[column] : 0;
        report(TENSOR_ACCESS, caller, freed_at, "tcgen05.%s of columns %d to %d, of which column %d is %s", what, first, first + count - 1, column,
               freed_at ? "deallocated" : owner ? "beyond the allocation" : "not allocated");
        abandon_launch();
    }
}

void publish_tensors(Published& published) {
    const TensorMemory* const memory = state.block->tensor_memory;
    if (!memory || !memory->used) return;
    for (int i = 0; i < AGENTS_OF_TENSORS; ++i) {
        uint32_t& known = published.known[FIRST_AGENT + i];
        if (memory->before[state.current][i] > known) known = memory->before[state.current][i];
    }
}

void begin_block_of_tensor_memory() {
    TensorMemory* const memory = state.block->tensor_memory;
    if (!memory || !memory->used) return;
    Operation* const operations = memory->operations;
    const size_t room = memory->operation_room;
    memset(memory, 0, sizeof *memory);
    memory->operations = operations;
    memory->operation_room = room;
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

void peakgate_tensor_alloc(void* to, unsigned columns, const void* caller) {
    Asked asked = {to, 0, columns, reinterpret_cast<uintptr_t>(caller)};
    meet(&asked, allocate, caller);
}

void peakgate_tensor_dealloc(uint32_t address, unsigned columns, const void* caller) {
    Asked asked = {nullptr, address, columns, reinterpret_cast<uintptr_t>(caller)};
    meet(&asked, deallocate, caller);
}

void peakgate_tensor_relinquish(const void* caller) {
    Asked asked = {nullptr, 0, 0, reinterpret_cast<uintptr_t>(caller)};
    meet(&asked, relinquish, caller);
}

void peakgate_tensor_move(uint32_t address, int shape, int count, int packs, int loads, uint32_t* registers, const void* caller) {
    Moved moved = {address, shape, count, packs, registers, reinterpret_cast<uintptr_t>(caller), loads != 0};
    meet(&moved, move, caller);
}

void peakgate_tensor_wait(int stores, const void* caller) { meet(nullptr, stores ? wait_for_stores : wait_for_loads, caller); }

void peakgate_tensor_fence(int after) {
    TensorMemory& memory = here();
    for (int i = 0; i < AGENTS_OF_TENSORS; ++i) {
        const uint32_t seen = known_of_agent(state.current, FIRST_AGENT + i, after != 0);
        if (after && seen) learn(state.current, FIRST_AGENT + i, seen - 1);
        if (!after) memory.before[state.current][i] = seen;
    }
}

void peakgate_tensor_commit(void* barrier, const void* caller) {
    arrive_for_agent(barrier, agent(PRODUCTS, own_warp()), here().issued[state.current], reinterpret_cast<uintptr_t>(caller));
}
