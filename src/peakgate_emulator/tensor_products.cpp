// Products of matrices in shared memory whose sums are in tensor memory, and copies to it: tcgen05.mma, tcgen05.cp.
//
// A product is exact and rounded once, as by `peakgate_multiply_rows`; in which order hardware adds is not specified.
// It is computed at its issue: tensor_memory.cpp and order.cpp find what is used or changed too early.
#include "tensor_memory.h"

#include <string.h>

namespace peakgate {

namespace {

constexpr int ROW_BYTES = 32, UNIT = 16, ROWS_AT_ONCE = 16;
constexpr int MAX_COLUMNS = 256;

[[noreturn]] void not_emulated(uintptr_t caller, const char* what) {
    report(NOT_EMULATED, caller, 0, "%s", what);
    abandon_launch();
}

[[noreturn]] void invalid(uintptr_t caller, const char* what, unsigned found) {
    report(INVALID_DESCRIPTOR, caller, 0, what, found);
    abandon_launch();
}

// A matrix in shared memory (PTX ISA, shared memory descriptor and canonical layouts).
struct Tile {
    uint64_t descriptor;
    bool transposed;   // rows are not contiguous along k
    int element_bytes; // of a transposed one
    int units;         // of 16 bytes along k of a row that is contiguous

    Tile(uint64_t descriptor, bool transposed, int element_bytes, int units, uintptr_t caller)
        : descriptor(descriptor), transposed(transposed), element_bytes(element_bytes), units(units) {
        if ((descriptor >> 46 & 7) != 1) invalid(caller, "matrix descriptor with %#x in bits 46 to 48, expected 1", descriptor >> 46 & 7);
        if (descriptor >> 53 & 0xff) invalid(caller, "matrix descriptor with %#x in bits 53 to 60, expected 0", descriptor >> 53 & 0xff);
        if (descriptor >> 49 & 7) not_emulated(caller, "a matrix descriptor with a base offset");
        if (descriptor >> 52 & 1) not_emulated(caller, "a matrix descriptor with an absolute leading dimension");
        const auto mode = static_cast<unsigned>(descriptor >> 61);
        if (mode == 1) not_emulated(caller, "a matrix descriptor with 128-byte swizzle of 32-byte atoms");
        if (mode == 3 || mode == 5 || mode == 7) invalid(caller, "matrix descriptor with swizzle mode %u", mode);
        if (transposed && element_bytes == 4) not_emulated(caller, "tcgen05.mma of tf32 with matrices that are not contiguous along k");
    }

    int rows_of_unit() const { return transposed ? UNIT / element_bytes : 1; }

    // Unit `number` of 16 bytes of row `row`; if transposed, of the rows from `row` on at k = `number`.
    char* unit(int row, int number) const {
        const auto field = [&](int shift) { return static_cast<int64_t>(descriptor >> shift & 0x3fff) << 4; };
        const int64_t start = field(0), leading = field(16), stride = field(32);
        constexpr int spans[] = {0, 0, 128, 0, 64, 0, 32, 0};
        const int span = spans[descriptor >> 61], group = row / rows_of_unit();
        int64_t offset = 0;
        if (!transposed)
            offset = row / 8 * stride + row % 8 * (span ? span : UNIT) + number * (span ? UNIT : leading);
        else if (span)
            offset = group % (span / UNIT) * UNIT + group / (span / UNIT) * leading + number % 8 * span + number / 8 * stride;
        else
            offset = group * stride + number % 8 * UNIT + number / 8 * leading;
        const uintptr_t address = reinterpret_cast<uintptr_t>(peakgate_shared_base()) + static_cast<uintptr_t>(start + offset);
        const uintptr_t swizzled = span ? static_cast<uintptr_t>(span / UNIT) - 1 : 0;
        return reinterpret_cast<char*>(address ^ ((address >> 7 & swizzled) << 4));
    }

    // Reads rows, of 16 * `units` bytes along k, on behalf of an operation.
    void gather(int rows, const Operation& by, uintptr_t caller, unsigned char* to) const {
        const int step = rows_of_unit(), row_bytes = units * UNIT, numbers = transposed ? row_bytes / element_bytes : units;
        for (int row = 0; row < rows; row += step) {
            for (int number = 0; number < numbers; ++number) {
                const char* const from = unit(row, number);
                check_agent_read(from, UNIT, by.agent, by.stamp, caller);
                if (!transposed) memcpy(to + row * row_bytes + number * UNIT, from, UNIT);
                for (int i = 0; i < step && transposed; ++i)
                    memcpy(to + (row + i) * row_bytes + number * element_bytes, from + i * element_bytes, static_cast<size_t>(element_bytes));
            }
        }
    }
};

// What an instruction descriptor says (PTX ISA, instruction descriptor).
struct Instruction {
    PeakgateNumber a, b, sums;
    bool negates_a, negates_b, transposes_a, transposes_b, clamps;
    int rows, columns, element_bytes;
};

PeakgateNumber number_of(PeakgateTensorKind kind, unsigned code, uintptr_t caller) {
    if (kind == PEAKGATE_KIND_F16 && code < 2) return code ? PEAKGATE_BF16 : PEAKGATE_F16;
    if (kind == PEAKGATE_KIND_TF32 && code == 2) return PEAKGATE_TF32;
    if (kind == PEAKGATE_KIND_I8 && code < 2) return code ? PEAKGATE_S8 : PEAKGATE_U8;
    if (kind == PEAKGATE_KIND_F8F6F4 && code < 2) return code ? PEAKGATE_E5M2 : PEAKGATE_E4M3;
    if (kind == PEAKGATE_KIND_F8F6F4 && code >= 3 && code <= 5) not_emulated(caller, "tcgen05.mma of numbers of 6 or 4 bits");
    invalid(caller, "instruction descriptor with type %u, which its kind does not have", code);
}

Instruction described(const PeakgateTensorProduct& product, uintptr_t caller) {
    const uint32_t bits = product.instruction;
    const auto field = [&](int shift, int count) { return bits >> shift & ((1u << count) - 1); };
    if (field(2, 1)) not_emulated(caller, "tcgen05.mma whose instruction descriptor has a sparse A");
    const uint32_t reserved = bits & (1u << 6 | 1u << 23 | 1u << 29 | 3u << 30 | 3u);
    if (reserved) invalid(caller, "instruction descriptor with reserved bits %#x set", reserved);
    Instruction found = {};
    found.a = number_of(product.kind, field(7, 3), caller);
    found.b = number_of(product.kind, field(10, 3), caller);
    const bool is_whole = product.kind == PEAKGATE_KIND_I8;
    if (product.kind == PEAKGATE_KIND_F16 && found.a != found.b) not_emulated(caller, "tcgen05.mma of f16 with bf16");
    const unsigned sums = field(4, 2);
    const bool halves = sums == 0 && (found.a == PEAKGATE_F16 || product.kind == PEAKGATE_KIND_F8F6F4);
    if (is_whole ? sums != 2 : sums != 1 && !halves) invalid(caller, "instruction descriptor with sums of type %u, which its kind does not have", sums);
    found.sums = is_whole ? PEAKGATE_S32 : sums ? PEAKGATE_F32 : PEAKGATE_F16;
    found.clamps = field(3, 1);
    found.negates_a = field(13, 1);
    found.negates_b = field(14, 1);
    if (is_whole ? found.negates_a || found.negates_b : found.clamps)
        invalid(caller, "instruction descriptor with a flag that its kind does not have (bits %#x)", bits & 0x6008);
    found.transposes_a = field(15, 1);
    found.transposes_b = field(16, 1);
    found.columns = static_cast<int>(field(17, 6)) * 8;
    found.rows = static_cast<int>(field(24, 5)) * 16;
    found.element_bytes = product.kind == PEAKGATE_KIND_TF32 ? 4 : product.kind == PEAKGATE_KIND_F16 ? 2 : 1;
    if (found.rows != 64 && found.rows != 128) invalid(caller, "instruction descriptor with M = %u, expected 64 or 128", static_cast<unsigned>(found.rows));
    const int step = found.rows == 128 || (is_whole && found.columns > 32) ? 16 : 8;
    const bool fits = found.columns >= step && found.columns <= MAX_COLUMNS && (found.columns % step == 0 || (is_whole && found.columns == 24));
    if (!fits) invalid(caller, "instruction descriptor with N = %u, which its kind and M do not have", static_cast<unsigned>(found.columns));
    return found;
}

// The lane of a row: of 64 rows each warp's quarter has 16 in its first lanes.
int lane_of(int row, const Instruction& what) { return what.rows == TENSOR_LANES ? row : row / ROWS_AT_ONCE * WARP + row % ROWS_AT_ONCE; }

// Where `peakgate_multiply_rows` has a sum of 16 rows: a register of a lane, of half sums a part of one.
size_t place_of_sum(int row, int column, const PeakgateProduct& product) {
    const int lane = row % 8 * 4 + column % 8 / 2, pair = column / 8 * 2 + row / 8;
    const int register_of = product.number_sums == PEAKGATE_F16 ? pair : pair * 2 + column % 2;
    return static_cast<size_t>(lane * product.registers + register_of);
}

void multiply(const PeakgateTensorProduct& asked, uintptr_t caller) {
    const Instruction what = described(asked, caller);
    const bool halves = what.sums == PEAKGATE_F16;
    const int first_column = static_cast<int>(asked.to & 0xffff);
    if (asked.to >> 16) not_emulated(caller, "tcgen05.mma whose sums do not begin in lane 0");
    check_columns(first_column, what.columns, "mma", caller);
    const uint64_t accumulator = asked.to | static_cast<uint64_t>(what.rows << 9 | what.columns) << 32 | static_cast<uint64_t>(asked.kind) << 60;
    const uint32_t number = begin_operation(MULTIPLIED, accumulator, caller);
    const Operation by = operation(number);

    unsigned char a[TENSOR_LANES * ROW_BYTES], b[MAX_COLUMNS * ROW_BYTES];
    if (asked.a_in_tensor_memory) {
        const int first = static_cast<int>(asked.a & 0xffff);
        if (asked.a >> 16 & 0xffff) not_emulated(caller, "tcgen05.mma whose A does not begin in lane 0");
        if (what.transposes_a) invalid(caller, "instruction descriptor that transposes A in tensor memory (%u)", 1);
        check_columns(first, ROW_BYTES / 4, "mma", caller);
        for (int row = 0; row < what.rows; ++row)
            for (int i = 0; i < ROW_BYTES / 4; ++i)
                memcpy(a + row * ROW_BYTES + 4 * i, &use_word(number, lane_of(row, what), first + i, TENSOR_READS).bits, 4);
    } else {
        Tile(asked.a, what.transposes_a, what.element_bytes, ROW_BYTES / UNIT, caller).gather(what.rows, by, caller, a);
    }
    Tile(asked.b, what.transposes_b, what.element_bytes, ROW_BYTES / UNIT, caller).gather(what.columns, by, caller, b);

    PeakgateProduct product = {};
    product.number_a = what.a;
    product.number_b = what.b;
    product.number_sums = what.sums;
    product.columns = what.columns;
    product.registers = what.columns / (halves ? 4 : 2);
    product.adds = asked.adds;
    product.scale_a = what.negates_a ? -1 : 1;
    product.scale_b = what.negates_b ? -1 : 1;
    product.clamps = what.clamps;
    uint32_t sums[ROWS_AT_ONCE * MAX_COLUMNS];
    for (int first = 0; first < what.rows; first += ROWS_AT_ONCE) {
        const int first_lane = lane_of(first, what);
        const auto is_written = [&](int lane) { return !(asked.disabled[lane / WARP] >> lane % WARP & 1); };
        if (asked.adds) {
            memset(sums, 0, sizeof sums);
            for (int row = 0; row < ROWS_AT_ONCE; ++row) {
                for (int column = 0; column < what.columns && is_written(first_lane + row); ++column) {
                    const uint32_t bits = use_word(number, first_lane + row, first_column + column, TENSOR_READS | TENSOR_WRITES).bits;
                    sums[place_of_sum(row, column, product)] |= halves ? (bits & 0xffff) << column % 2 * 16 : bits;
                }
            }
        }
        asked.multiply(&product, a + first * ROW_BYTES, b, sums);
        for (int row = 0; row < ROWS_AT_ONCE; ++row) {
            for (int column = 0; column < what.columns && is_written(first_lane + row); ++column) {
                const uint32_t bits = sums[place_of_sum(row, column, product)];
                Word& to = use_word(number, first_lane + row, first_column + column, TENSOR_WRITES);
                to.bits = halves ? bits >> column % 2 * 16 & 0xffff : bits;
            }
        }
    }
}

void copy(uint32_t to, uint64_t from, int rows, int units, int repeats, uintptr_t caller) {
    constexpr int words = UNIT / 4;
    const int first_column = static_cast<int>(to & 0xffff);
    if (to >> 16) not_emulated(caller, "tcgen05.cp that does not begin in lane 0");
    check_columns(first_column, units * words, "cp", caller);
    const uint32_t number = begin_operation(COPIED, 0, caller);
    const Operation by = operation(number);
    unsigned char bytes[TENSOR_LANES * ROW_BYTES];
    Tile(from, false, 0, units, caller).gather(rows, by, caller, bytes);
    for (int lane = 0; lane < TENSOR_LANES; ++lane) {
        const int quarter = lane / WARP;
        // Of two halves, each goes to two quarters: the first one to 0 and 2, or to 0 and 1.
        const int half = repeats == 2 ? quarter % 2 : quarter / 2;
        const int row = rows == TENSOR_LANES ? lane : repeats == 4 ? lane % WARP : half * WARP + lane % WARP;
        for (int i = 0; i < units * words; ++i)
            memcpy(&use_word(number, lane, first_column + i, TENSOR_WRITES).bits, bytes + row * units * UNIT + 4 * i, 4);
    }
}

} // namespace

} // namespace peakgate

using namespace peakgate;

void peakgate_tensor_multiply(const PeakgateTensorProduct* product, const void* caller) {
    multiply(*product, reinterpret_cast<uintptr_t>(caller));
}

void peakgate_tensor_copy(uint32_t to, uint64_t from, int rows, int units, int repeats, const void* caller) {
    copy(to, from, rows, units, repeats, reinterpret_cast<uintptr_t>(caller));
}
