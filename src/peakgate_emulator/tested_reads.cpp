// Plain reads that a compare-and-swap tests. A plain read of a word that another thread updates by atomics is a race,
// but the programming guide begins its compare-and-swap loops with one (as in its atomicAdd for doubles): the
// compare-and-swap fails unless the word still has the value that was read. So such a read is not a defect if the same
// thread's next access to that word is a compare-and-swap that expects the value read. Until then the race is pending.
#include "shadow.h"

#include <string.h>

namespace peakgate {

int untested_count;

namespace {

constexpr int MOST_UNTESTED = 64; // the oldest is dropped, or reported if it is the current thread's

struct Untested {
    const Cell* cell;
    uint32_t block, value;
    int thread;
    Space space;
    uintptr_t offset, caller;
    Access store;
};

Untested untested[MOST_UNTESTED];

bool is_own(const Untested& each) { return each.thread == state.current && each.block == state.block->number; }

void remove(int at) { memmove(untested + at, untested + at + 1, static_cast<size_t>(--untested_count - at) * sizeof *untested); }

void report_untested(int at) {
    const Untested found = untested[at];
    remove(at);
    race(found.store, READ_AFTER_WRITE, found.space, found.offset, found.caller);
}

} // namespace

void test_later(const Cell* cell, const Access& store, Space space, uintptr_t offset, uintptr_t caller) {
    for (int i = 0; i < untested_count; ++i) {
        if (untested[i].cell != cell || !is_own(untested[i])) continue;
        report_untested(i); // read twice without a test in between
        break;
    }
    if (untested_count == MOST_UNTESTED) {
        int oldest = 0;
        while (oldest < MOST_UNTESTED && !is_own(untested[oldest])) ++oldest;
        if (oldest < MOST_UNTESTED)
            report_untested(oldest);
        else
            remove(0);
    }
    uint32_t value = 0;
    memcpy(&value, reinterpret_cast<const void*>(word_of(cell)), sizeof value);
    untested[untested_count++] = {cell, state.block->number, value, state.current, space, offset, caller, store};
}

void tested(uintptr_t address, size_t size, const void* expected) {
    Cell* cell = cell_of(address);
    if (!cell) return;
    const bool is_unchanged = memcmp(reinterpret_cast<const void*>(address), expected, size) == 0;
    const auto* wanted = static_cast<const char*>(expected);
    for (uintptr_t at = address, end = address + size; at < end; ++cell) {
        const uintptr_t next = (at & ~uintptr_t{3}) + 4, until = next < end ? next : end;
        bool is_tested = is_unchanged; // the value is unchanged, or its writer has reported this read as a race
        for (int i = untested_count; i-- > 0;) {
            const Untested& each = untested[i];
            if (each.cell != cell || !is_own(each)) continue;
            const char* read = reinterpret_cast<const char*>(&each.value) + at % 4;
            if (memcmp(read, wanted + (at - address), until - at) != 0) continue;
            remove(i);
            is_tested = true;
        }
        Access& reads = cell->read;
        if (is_tested && reads.epoch == state.epoch && reads.thread == state.current && !(reads.details & BY_SEVERAL))
            reads.details |= STRONG_READ | (state.scope == PEAKGATE_BLOCK ? READ_OF_BLOCK : 0);
        at = until;
    }
}

void report_untested_reads() {
    for (int i = 0; i < untested_count;) {
        if (is_own(untested[i]))
            report_untested(i);
        else
            ++i;
    }
}

void forget_untested_reads() { untested_count = 0; }

} // namespace peakgate
