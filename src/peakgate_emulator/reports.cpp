// Reports defects of a kernel, once per location: immediately, or after a write whose value matters.
#include "shadow.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

namespace peakgate {

uintptr_t written_at;
size_t written_size;
bool copies_whole;

Report* report(Kind kind, uintptr_t address, uintptr_t other_address, const char* format, ...) {
    const uint64_t at = address ? address - state.image : 0;
    const uint64_t other_at = other_address ? other_address - state.image : 0;
    for (int i = 0; i < state.report_count; ++i) {
        Report& known = state.reports[i];
        if (known.kind == kind && known.address == at && known.other_address == other_at) {
            ++known.count;
            return nullptr;
        }
    }
    if (state.report_count == MAX_REPORTS) return nullptr;
    Report& noted = state.reports[state.report_count++];
    noted = {};
    noted.kind = kind;
    noted.count = 1;
    noted.address = at;
    noted.other_address = other_at;
    noted.thread = current_thread().index;
    noted.block = {peakgate_block_x, peakgate_block_y, peakgate_block_z};
    va_list values;
    va_start(values, format);
    vsnprintf(noted.message, sizeof noted.message, format, values);
    va_end(values);
    return &noted;
}

// ---- writes whose value matters ----

namespace {

constexpr int MAX_WRITES = 4;
Write writes[MAX_WRITES];
int write_count;
int64_t budget_kept; // while writes are to be checked, the budget seems spent

uint64_t first_bytes(uintptr_t address, size_t size) {
    uint64_t value = 0;
    memcpy(&value, reinterpret_cast<const void*>(address), size < 8 ? size : 8);
    return value;
}

// `race` describes a race, also one that is no write.
void report_race(const Write& race, bool same, const char* values) {
    const Access& earlier = race.earlier;
    constexpr const char* words[] = {"read after write", "write after write", "write after read", "read after write",
                                     "write after write"};
    const bool other_block = block_of(earlier.epoch) != state.block->number, by_agent = earlier.thread >= MAX_THREADS;
    const Kind kind = same ? SAME_VALUE_RACE : is_shared(race.space) ? SHARED_RACE : GLOBAL_RACE;
    const bool read_first = race.clash == READ_BEFORE_WRITE;
    const uintptr_t earlier_at = state.image + earlier.address;
    Report* noted = report(kind, read_first ? earlier_at : race.caller, read_first ? race.caller : earlier_at,
                           "%s of the same %s word (byte %ld) by %s, and nothing orders the two%s", words[race.clash],
                           is_shared(race.space) ? "shared" : "global", place(race.space, race.offset),
                           by_agent      ? "an asynchronous operation"
                           : other_block ? "another block"
                                         : "another thread",
                           values);
    if (!noted || by_agent || (!other_block && earlier.thread == state.current)) return;
    noted->has_other_thread = 1;
    (read_first ? noted->thread : noted->other_thread) = state.threads[earlier.thread].index;
    if (read_first) noted->other_thread = current_thread().index;
    noted->other_block = index_of_block(block_of(earlier.epoch));
    noted->missing_fence = race.fence;
    noted->published_at = race.published_at;
}

void look_at(const Write& write) {
    const auto* value = reinterpret_cast<const char*>(write.address);
    if (write.floating_size) {
        const auto step = static_cast<size_t>(write.floating_size);
        for (size_t at = 0; at + step <= write.size; at += step) {
            uint64_t bits = 0;
            memcpy(&bits, value + at, step);
            if ((bits & write.not_finite) != write.not_finite) continue;
            report(NONFINITE, write.caller, 0, "NaN or infinity is written to byte %ld of an array",
                   static_cast<long>(write.offset + at));
            return;
        }
        return;
    }
    const uint64_t after = first_bytes(write.address, write.size);
    const bool overwrites = write.clash == WRITE_AFTER_WRITE || write.clash == VOLATILE_WRITES;
    if (write.clash == VOLATILE_WRITES && write.size && after == write.before) return;
    char values[80] = "";
    const int digits = write.size < 8 ? static_cast<int>(2 * write.size) : 16;
    if (write.size && (overwrites || after != write.before))
        snprintf(values, sizeof values, ": the bits 0x%0*llx replace 0x%0*llx%s", digits,
                 static_cast<unsigned long long>(after), digits, static_cast<unsigned long long>(write.before),
                 overwrites ? "" : ", which was read");
    const bool same = overwrites && write.size && after == write.before;
    report_race(write, same, values);
}

} // namespace

void look_at_later(const Write& write) {
    if (write_count == MAX_WRITES) return;
    if (write_count == 0) {
        budget_kept = state.budget_left;
        state.budget_left = 0;
    }
    writes[write_count++] = write;
}

void forget_writes() { write_count = 0; }

void race(const Access& earlier, Clash clash, Space space, uintptr_t offset, uintptr_t caller) {
    Write found = {written_at, written_size, 0, caller, clash, space, offset, earlier, NO_FENCE, 0, 0, 0};
    if (earlier.thread < MAX_THREADS && block_of(earlier.epoch) != state.block->number)
        found.fence = missing_fence(earlier, found.published_at); // later the thread may know more
    if (clash == READ_AFTER_WRITE || clash == READ_BEFORE_WRITE) {
        report_race(found, false, clash == READ_BEFORE_WRITE ? " (here the read came first)" : "");
        return;
    }
    found.before = first_bytes(written_at, written_size);
    look_at_later(found);
}

// Some bytes of a word are written and others read too. In a wide access a struct is copied, and those are its padding; yet
// of two numbers of 16 bits in a vector, both must have been written.
static bool is_padding(int read, int there) {
    constexpr int low_half = 0x3, high_half = 0xc;
    const int known = read & there;
    return known && (copies_whole || (known != low_half && known != high_half));
}

void report_uninitialised(Space space, uintptr_t offset, uintptr_t caller, int read, int there, bool wide) {
    if (wide && is_padding(read, there)) return;
    const uintptr_t address = state.shared + offset, copied = is_shared(space) ? async_copy_in_flight(address, -1) : 0;
    const uintptr_t issued_at = copied || !is_shared(space) ? copied : bulk_copy_in_flight(address);
    if (issued_at)
        report(UNINITIALISED_SHARED, caller, issued_at,
               "read of shared memory (byte %ld) to which an asynchronous copy is in flight that nobody has waited for",
               place(space, offset));
    else if (is_shared(space))
        report(UNINITIALISED_SHARED, caller, 0, "read of shared memory (byte %ld) that this block has not written",
               place(space, offset));
    else
        report(UNINITIALISED_GLOBAL, caller, 0, "read of global memory (byte %ld) that nobody has written",
               place(space, offset));
}

void write_meets_copy(uintptr_t offset, uintptr_t caller) {
    const uintptr_t issued_at = async_copy_in_flight(state.shared + offset, state.current);
    if (!issued_at || issued_at == caller) return;
    report(SHARED_RACE, caller, issued_at, "write to shared memory (byte %ld) to which an asynchronous copy of the same thread is in flight",
           place(SHARED, offset));
}

void report_discarded(const Access& discard, uintptr_t offset, uintptr_t caller) {
    if (discard.epoch < state.launch_since) return; // by an earlier launch
    report(UNINITIALISED_GLOBAL, caller, state.image + discard.address,
           "read of global memory (byte %ld) whose contents a discard has made indeterminate, before a write", place(GLOBAL, offset));
}

bool settle_writes() {
    if (write_count == 0) return false;
    state.budget_left += budget_kept;
    const int count = write_count;
    write_count = 0;
    for (int i = 0; i < count; ++i) look_at(writes[i]);
    return true;
}

} // namespace peakgate

using namespace peakgate;

void peakgate_not_emulated(const char* feature) {
    report(NOT_EMULATED, PEAKGATE_CALLER, 0, "%s", feature);
    abandon_launch();
}

void peakgate_assertion(const char* condition) {
    report(ASSERTION, PEAKGATE_CALLER, 0, "assertion failed: %s", condition);
    abandon_launch();
}

void peakgate_precondition(const char* condition, const void* caller) {
    report(ASSERTION, reinterpret_cast<uintptr_t>(caller), 0, "precondition failed: %s", condition);
    abandon_launch();
}

PEAKGATE_API int peakgate_reports(const Report** reports) {
    *reports = state.reports;
    return state.report_count;
}
