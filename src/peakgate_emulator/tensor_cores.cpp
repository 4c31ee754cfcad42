// Products by a warpgroup (wgmma): every warp has its own rows of A and of the sums.
//
// Hardware reads both matrices and writes the sums at any time between issue and wait, and one warp's wait covers the
// product of all four: in CUTLASS one thread of the group releases a slot. So a wait blocks until all four warps have
// issued the product, which is computed then; its sums are NaNs until their own warp has waited, so missing waits are
// noticed. An agent of each warp (order.cpp) reads shared memory from the issue on.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

namespace peakgate {

constexpr int ROW_BYTES = 32, ROWS_OF_WARP = 16, UNIT = 16, WARPS_OF_GROUP = 4;

// A product that a warp has issued, with the addresses and the previous values of all lanes' sums.
struct Pending {
    PeakgateProduct product;
    uint32_t registers_of_a[WARP][4];
    void** sums;
    uint32_t* values;
    uintptr_t low[WARP], high[WARP]; // range of each lane's sums
    bool follows; // it follows a pending product with the same sums
    bool made;    // computed: `values` are its result
    int group;
    uintptr_t caller;
    uint32_t number; // one less than the agent's stamp
};

struct OfWarp {
    Pending* pending;
    size_t count, room;
    uint32_t issued;
    int committed;
    bool fenced, ended;
    uintptr_t low[WARP], high[WARP]; // range of each lane's sums of pending products, or a wider one
    // The latest result, until the next fence.
    void* written_to;
    uint32_t* written;
    size_t written_count, written_room;
};

// What a thread has written to its local memory since its last wgmma.fence; the oldest are dropped.
struct Written {
    uintptr_t low, high, caller;
};
constexpr unsigned WRITTEN = 16;
struct OfThread {
    Written written[WRITTEN];
    unsigned count;
};

struct TensorCores {
    OfWarp warps[MAX_THREADS / WARP];
    OfThread threads[MAX_THREADS];
    bool used;
};

TensorCores* new_tensor_cores() { return static_cast<TensorCores*>(calloc(1, sizeof(TensorCores))); }

namespace {

OfWarp& warp_of(int number) { return state.block->tensor_cores->warps[number]; }
int own_number() { return state.current / WARP; }
OfWarp& own_warp() { return warp_of(own_number()); }
int first_of_group() { return own_number() / WARPS_OF_GROUP * WARPS_OF_GROUP; }

// A matrix in shared memory, given by its descriptor.
struct Matrix {
    uint64_t descriptor;
    bool transposed; // rows are not contiguous along k

    // Unit `number` of 16 bytes of row `row`; if transposed, of the eight rows from `row` on at k = `number`.
    char* unit(int row, int number) const {
        const auto field = [&](int shift) { return static_cast<int64_t>(descriptor >> shift & 0x3fff) << 4; };
        const int64_t start = field(0), leading = field(16), stride = field(32);
        constexpr int spans[] = {0, 128, 64, 32};
        const int span = spans[descriptor >> 62];
        int64_t offset = 0;
        if (!transposed)
            offset = row / 8 * stride + row % 8 * (span ? span : UNIT) + number * (span ? UNIT : leading);
        else if (span)
            offset = row / 8 % (span / UNIT) * UNIT + row / 8 / (span / UNIT) * leading + number % 8 * span + number / 8 * stride;
        else
            offset = row / 8 * stride + number % 8 * UNIT + number / 8 * leading;
        const uintptr_t address = reinterpret_cast<uintptr_t>(peakgate_shared_base()) + static_cast<uintptr_t>(start + offset);
        const uintptr_t units = span ? static_cast<uintptr_t>(span / UNIT) - 1 : 0;
        return reinterpret_cast<char*>(address ^ ((address >> 7 & units) << 4));
    }

    // Calls `take(unit, row, number)` for all units of these rows.
    template <class F> void for_units(int first_row, int rows, F take) const {
        const int step = transposed ? 8 : 1, units = transposed ? ROW_BYTES / 2 : ROW_BYTES / UNIT;
        for (int row = 0; row < rows; row += step)
            for (int number = 0; number < units; ++number) take(unit(first_row + row, number), row, number);
    }

    void gather(int first_row, int rows, unsigned char* to) const {
        for_units(first_row, rows, [&](const char* from, int row, int number) {
            if (!transposed) memcpy(to + row * ROW_BYTES + number * UNIT, from, UNIT);
            for (int i = 0; i < 8 && transposed; ++i) memcpy(to + (row + i) * ROW_BYTES + number * 2, from + 2 * i, 2);
        });
    }

    void check(int first_row, int rows, int agent, uint32_t stamp, uintptr_t caller) const {
        if (descriptor >> 49 & 7) {
            report(NOT_EMULATED, caller, 0, "a matrix descriptor with a base offset");
            abandon_launch();
        }
        for_units(first_row, rows, [&](const char* from, int, int) { check_agent_read(from, UNIT, agent, stamp, caller); });
    }
};

Matrix matrix_a(const PeakgateProduct& product) { return {product.a, product.transposes_a != 0}; }
Matrix matrix_b(const PeakgateProduct& product) { return {product.b, product.transposes_b != 0}; }
int first_row(int warp) { return warp % WARPS_OF_GROUP * ROWS_OF_WARP; }

template <class T> T* grown(T* from, size_t count) {
    auto* to = static_cast<T*>(realloc(from, count * sizeof(T)));
    if (!to) abort();
    return to;
}

void release(Pending& pending) {
    free(pending.sums);
    free(pending.values);
}

// The last product before one, pending too, that has the same sums; null if there is none.
const Pending* follows(const OfWarp& warp, size_t place) {
    const Pending& own = warp.pending[place];
    for (size_t i = place; i-- > 0;)
        if (warp.pending[i].sums[0] == own.sums[0] && warp.pending[i].product.registers == own.product.registers) return &warp.pending[i];
    return nullptr;
}

struct Brought {
    const PeakgateProduct* product;
    uintptr_t caller;
};

// Reports sums of the warp's last product that were changed by other operations without a fence.
void check_registers(const OfWarp& warp, const Pending& issued, uintptr_t caller) {
    if (!warp.fenced) {
        report(REGISTER_RACE, caller, 0, "wgmma without a wgmma.fence before it, so it may not see the current contents of its registers");
        return;
    }
    const auto registers = static_cast<size_t>(issued.product.registers);
    if (issued.follows || !issued.product.adds) return;
    constexpr const char* what = "wgmma that adds to sums that were changed, with no wgmma.fence between the two";
    if (warp.written_to == issued.sums[0] && warp.written_count == registers * WARP &&
        memcmp(warp.written, issued.values, registers * WARP * sizeof(uint32_t)) != 0) {
        report(REGISTER_RACE, caller, 0, what);
        return;
    }
    for (size_t i = 0; i < registers * WARP; ++i) {
        const OfThread& of = state.block->tensor_cores->threads[static_cast<size_t>(own_number()) * WARP + i / registers];
        const auto sum = reinterpret_cast<uintptr_t>(issued.sums[i]);
        for (unsigned j = 0; j < of.count && j < WRITTEN; ++j) {
            if (sum < of.written[j].low || sum >= of.written[j].high) continue;
            report(REGISTER_RACE, caller, of.written[j].caller, what);
            return;
        }
    }
}

// Called by the last lane to arrive, for all lanes.
void issue(void* const* offered) {
    const auto* const* lanes = reinterpret_cast<const Brought* const*>(offered);
    const PeakgateProduct& product = *lanes[0]->product;
    const uintptr_t caller = lanes[0]->caller;
    OfWarp& warp = own_warp();
    if (state.thread_count < (first_of_group() + WARPS_OF_GROUP) * WARP) {
        report(WARP_MASK, caller, 0, "wgmma by a group of fewer than four warps");
        abandon_launch();
    }
    for (int lane = 1; lane < WARP; ++lane) {
        const PeakgateProduct& other = *lanes[lane]->product;
        if (other.b == product.b && other.adds == product.adds && (product.registers_of_a || other.a == product.a)) continue;
        report(WARP_MASK, caller, 0, "wgmma whose lanes give different matrices, or differ in whether they add");
        abandon_launch();
    }
    for (int other = first_of_group(); other < first_of_group() + WARPS_OF_GROUP; ++other) {
        const OfWarp& its = warp_of(other);
        for (size_t i = 0; i < its.count; ++i) {
            const PeakgateProduct& same = its.pending[i].product;
            if (its.pending[i].number != warp.issued) continue;
            if (same.b == product.b && same.columns == product.columns && (product.registers_of_a || same.a == product.a)) continue;
            report(WARP_MASK, caller, 0, "wgmma for which the four warps of a group give different matrices");
            abandon_launch();
        }
    }
    const int by = agent(PRODUCTS, own_number());
    const uint32_t stamp = new_stamp_of(by);
    if (!product.registers_of_a) matrix_a(product).check(first_row(own_number()), ROWS_OF_WARP, by, stamp, caller);
    matrix_b(product).check(0, product.columns, by, stamp, caller);

    if (warp.count == warp.room) {
        warp.room = warp.room ? 2 * warp.room : 8;
        warp.pending = grown(warp.pending, warp.room);
    }
    Pending& issued = warp.pending[warp.count];
    issued = {};
    issued.product = product;
    issued.group = warp.committed;
    issued.caller = caller;
    issued.number = warp.issued++;
    const auto registers = static_cast<size_t>(product.registers);
    issued.sums = grown<void*>(nullptr, registers * WARP);
    issued.values = grown<uint32_t>(nullptr, registers * WARP);
    for (size_t lane = 0; lane < WARP; ++lane) {
        const PeakgateProduct& own = *lanes[lane]->product;
        memcpy(issued.sums + lane * registers, own.sums, registers * sizeof(void*));
        if (own.registers_of_a) memcpy(issued.registers_of_a[lane], own.registers_of_a, sizeof issued.registers_of_a[lane]);
    }
    const Pending* const before = follows(warp, warp.count);
    issued.follows = before;
    for (size_t lane = 0; lane < WARP; ++lane) {
        issued.low[lane] = ~uintptr_t{0};
        for (size_t i = lane * registers; i < (lane + 1) * registers; ++i) {
            const auto sum = reinterpret_cast<uintptr_t>(issued.sums[i]);
            if (sum < issued.low[lane]) issued.low[lane] = sum;
            if (sum >= issued.high[lane]) issued.high[lane] = sum + sizeof(uint32_t);
        }
        if (!warp.count || issued.low[lane] < warp.low[lane]) warp.low[lane] = issued.low[lane];
        if (!warp.count || issued.high[lane] > warp.high[lane]) warp.high[lane] = issued.high[lane];
    }
    for (size_t i = 0; i < registers * WARP; ++i) {
        memcpy(&issued.values[i], before && before->made ? static_cast<void*>(&before->values[i]) : issued.sums[i], sizeof(uint32_t));
        memset(issued.sums[i], 0xff, sizeof(uint32_t));
    }
    check_registers(warp, issued, caller);
    for (size_t lane = 0; lane < WARP; ++lane) { // what was there before is overwritten
        for (Written& each : state.block->tensor_cores->threads[static_cast<size_t>(own_number()) * WARP + lane].written)
            if (each.low < issued.high[lane] && issued.low[lane] < each.high) each = {};
    }
    ++warp.count;
    for (int i = first_of_group() * WARP; i < (first_of_group() + WARPS_OF_GROUP) * WARP; ++i)
        if (state.threads[i].status == AT_PRODUCT) state.threads[i].status = READY;
}

void make(int number, size_t place) {
    OfWarp& warp = warp_of(number);
    Pending& done = warp.pending[place];
    if (done.made) return;
    done.made = true;
    const PeakgateProduct& product = done.product;
    unsigned char a[ROWS_OF_WARP * ROW_BYTES], b[256 * ROW_BYTES];
    if (product.registers_of_a) {
        // Register r has 4 bytes of row lane / 4, eight rows below if r is odd; the last two are 16 bytes further along
        // k.
        for (int lane = 0; lane < WARP; ++lane)
            for (int r = 0; r < 4; ++r)
                memcpy(a + (lane / 4 + r % 2 * 8) * ROW_BYTES + r / 2 * UNIT + lane % 4 * 4, &done.registers_of_a[lane][r], 4);
    } else {
        matrix_a(product).gather(first_row(number), ROWS_OF_WARP, a);
    }
    matrix_b(product).gather(0, product.columns, b);
    product.multiply(&product, a, b, done.values);
    const size_t count = static_cast<size_t>(product.registers) * WARP;
    for (size_t i = place + 1; i < warp.count; ++i) { // the next product adds to this one's result
        if (warp.pending[i].sums[0] != done.sums[0] || warp.pending[i].product.registers != product.registers) continue;
        memcpy(warp.pending[i].values, done.values, count * sizeof(uint32_t));
        return;
    }
}

// Writes the sums to the registers, unless another product overwrites them.
void hand_out(OfWarp& warp, size_t place) {
    const Pending& done = warp.pending[place];
    for (size_t i = place + 1; i < warp.count; ++i)
        if (warp.pending[i].sums[0] == done.sums[0]) return;
    const size_t count = static_cast<size_t>(done.product.registers) * WARP;
    for (size_t i = 0; i < count; ++i) memcpy(done.sums[i], &done.values[i], sizeof(uint32_t));
    if (warp.written_room < count) warp.written = grown(warp.written, warp.written_room = count);
    memcpy(warp.written, done.values, count * sizeof(uint32_t));
    warp.written_to = done.sums[0];
    warp.written_count = count;
}

void fence(void* const*) {
    OfWarp& warp = own_warp();
    warp.fenced = true;
    warp.written_to = nullptr;
    use_agents(); // so that local memory is watched
    for (int i = own_number() * WARP; i < (own_number() + 1) * WARP; ++i) state.block->tensor_cores->threads[i].count = 0;
}

void commit(void* const*) { ++own_warp().committed; }

// Number of the warp's products that a wait completes.
size_t count_due(const OfWarp& warp, int groups_left) {
    size_t due = 0;
    while (due < warp.count && warp.pending[due].group < warp.committed - groups_left) ++due;
    return due;
}

bool all_have_issued(uint32_t number) {
    bool all = true;
    for (int other = first_of_group(); other < first_of_group() + WARPS_OF_GROUP; ++other) all &= warp_of(other).issued > number;
    return all;
}

void wait(void* const* offered) {
    OfWarp& warp = own_warp();
    const size_t due = count_due(warp, *static_cast<const int*>(offered[0]));
    if (!due) return;
    const uint32_t last = warp.pending[due - 1].number;
    for (int other = first_of_group(); other < first_of_group() + WARPS_OF_GROUP; ++other) {
        OfWarp& its = warp_of(other);
        for (size_t i = 0; i < its.count && its.pending[i].number <= last; ++i) make(other, i);
        for (int lane = 0; lane < WARP; ++lane) learn(own_number() * WARP + lane, agent(PRODUCTS, other), last + 1);
    }
    for (size_t i = 0; i < due; ++i) hand_out(warp, i);
    for (size_t i = 0; i < due; ++i) release(warp.pending[i]);
    warp.count -= due;
    memmove(warp.pending, warp.pending + due, warp.count * sizeof(Pending));
    for (size_t i = 0; i < warp.count; ++i) warp.pending[i].follows = follows(warp, i);
}

void meet(void* brought, void (*together)(void* const*), const void* caller) {
    state.block->tensor_cores->used = true;
    const PeakgateWarpCall call = {PEAKGATE_WARP_TOGETHER, ~0u, &brought, nullptr, sizeof brought, 0, WARP, together};
    peakgate_warp(&call, caller);
}

} // namespace

void begin_block_of_tensor_cores() {
    TensorCores& all = *state.block->tensor_cores;
    if (!all.used) return;
    for (OfWarp& warp : all.warps) {
        for (size_t i = 0; i < warp.count; ++i) release(warp.pending[i]);
        warp.count = 0;
        warp.issued = 0;
        warp.committed = 0;
        warp.fenced = warp.ended = false;
        warp.written_to = nullptr;
    }
    for (OfThread& of : all.threads) of.count = 0;
    all.used = false;
}

void end_thread_of_tensor_cores() {
    if (!state.block->tensor_cores->used) return;
    OfWarp& warp = own_warp();
    if (!warp.count || warp.ended) return;
    warp.ended = true;
    report(REGISTER_RACE, warp.pending[0].caller, 0, "the sums of %zu products (wgmma) of a warp are never waited for: %s", warp.count,
           warp.pending[0].group == warp.committed ? "wgmma.commit_group is missing" : "wgmma.wait_group is missing");
}

void check_sums(uintptr_t address, size_t size, bool writes, uintptr_t caller) {
    const OfWarp& warp = own_warp();
    if (writes && warp.fenced) {
        OfThread& of = state.block->tensor_cores->threads[state.current];
        Written& last = of.written[(of.count - 1) % WRITTEN];
        if (of.count && address == last.high)
            last.high += size;
        else if (!of.count || address < last.low || address + size > last.high)
            of.written[of.count++ % WRITTEN] = {address, address + size, caller};
    }
    const auto lane = static_cast<size_t>(state.current % WARP);
    if (!warp.count || address >= warp.high[lane] || address + size <= warp.low[lane]) return;
    for (size_t i = 0; i < warp.count; ++i) {
        const Pending& pending = warp.pending[i];
        if (pending.follows || address >= pending.high[lane] || address + size <= pending.low[lane]) continue;
        const auto registers = static_cast<size_t>(pending.product.registers);
        for (size_t number = lane * registers; number < (lane + 1) * registers; ++number) {
            const auto sum = reinterpret_cast<uintptr_t>(pending.sums[number]);
            if (sum >= address + size || address >= sum + sizeof(uint32_t)) continue;
            report(REGISTER_RACE, caller, pending.caller, "access to a sum of a product (wgmma) that has not been waited for");
            return;
        }
    }
}

} // namespace peakgate

using namespace peakgate;

void peakgate_wgmma(const PeakgateProduct* product, const void* caller) {
    Brought brought = {product, reinterpret_cast<uintptr_t>(caller)};
    meet(&brought, issue, caller);
}
void peakgate_wgmma_fence(const void* caller) { meet(nullptr, fence, caller); }
void peakgate_wgmma_commit(const void* caller) { meet(nullptr, commit, caller); }
void peakgate_wgmma_wait(int groups_left, const void* caller) {
    const OfWarp& warp = own_warp();
    while (const size_t due = count_due(warp, groups_left)) {
        if (all_have_issued(warp.pending[due - 1].number)) break;
        wait_as(AT_PRODUCT, reinterpret_cast<uintptr_t>(caller));
    }
    meet(&groups_left, wait, caller);
}
