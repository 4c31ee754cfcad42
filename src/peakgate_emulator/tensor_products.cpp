// Products of matrices in shared memory whose sums are in tensor memory, and copies to it: tcgen05.mma, tcgen05.cp.
//
// A product is exact and rounded once, as by `peakgate_multiply_rows`; in which order hardware adds is not specified.
// It is computed at its issue: tensor_memory.cpp and order.cpp find what is used or changed too early.
#include "halves.h"
#include "sparse.h"
#include "tensor_memory.h"

#include <string.h>

namespace peakgate {

namespace {

constexpr int ROW_BYTES = 32, UNIT = 16, ROWS_AT_ONCE = 16;
constexpr int MAX_COLUMNS = 256, MAX_DEPTH = 64, MAX_SCALES = 4; // MAX_DEPTH: numbers in a row of A
// Rows of 32 bytes that are multiplied at once, those of B of 64 if A is sparse: those of A of one block, those of B of both.
using RowsOfA = unsigned char[TENSOR_LANES * ROW_BYTES];
using RowsOfB = unsigned char[MAX_COLUMNS * 2 * ROW_BYTES];
// The column of each number in the rows of a sparse A.
using Selected = unsigned char[TENSOR_LANES * MAX_DEPTH];

[[noreturn]] void not_emulated(uintptr_t caller, const char* what) {
    report(NOT_EMULATED, caller, 0, "%s", what);
    abandon_launch();
}

[[noreturn]] void invalid(uintptr_t caller, const char* what, unsigned found) {
    report(INVALID_DESCRIPTOR, caller, 0, what, found);
    abandon_launch();
}

// A matrix in shared memory: its descriptor (PTX ISA 9.7.16.4.1) and canonical layouts (9.7.16.3.3).
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
        if (mode == 6 && !transposed && units > 2) not_emulated(caller, "a matrix with 32-byte swizzle whose rows have 64 bytes");
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

    // Reads rows, of 16 * `units` bytes along k, on behalf of an operation, from the own shared memory or that of the other
    // block of the pair.
    void gather(int rows, const Operation& by, bool of_other_block, uintptr_t caller, unsigned char* to) const {
        const int step = rows_of_unit(), row_bytes = units * UNIT, numbers = transposed ? row_bytes / element_bytes : units;
        for (int row = 0; row < rows; row += step) {
            for (int number = 0; number < numbers; ++number) {
                const char* from = unit(row, number);
                if (of_other_block) from = reinterpret_cast<const char*>(address_in(state.block->rank ^ 1, reinterpret_cast<uintptr_t>(from)));
                check_agent_read(from, UNIT, by.agent, by.stamp, caller);
                if (!transposed) memcpy(to + row * row_bytes + number * UNIT, from, UNIT);
                for (int i = 0; i < step && transposed; ++i)
                    memcpy(to + (row + i) * row_bytes + number * element_bytes, from + i * element_bytes, static_cast<size_t>(element_bytes));
            }
        }
    }
};

// What an instruction descriptor says (PTX ISA 9.7.16.4.2).
struct Instruction {
    PeakgateNumber a, b, sums;
    unsigned narrow_a, narrow_b; // codes of types of 8 bits and fewer
    bool is_narrow;              // multiplied here, not by `peakgate_multiply_rows`
    bool negates_a, negates_b, transposes_a, transposes_b, clamps;
    bool is_stationary;                       // .ws
    bool is_sparse;                           // .sp
    int selector;                             // of the column of its metadata
    int blocks, rows, columns, element_bytes; // rows: of both blocks of a pair
    int scale_a, scale_b; // the first byte of a word of scales
    bool powers;          // the scales are powers of two (ue8m0)
};

// Types of 8 bits and fewer, by their codes.
constexpr unsigned E4M3 = 0, E5M2 = 1, E2M3 = 3, E3M2 = 4, E2M1 = 5, PACKED_E2M1 = 1;

bool is_scaled(PeakgateTensorKind kind) { return kind >= PEAKGATE_KIND_MXF8F6F4; }
bool is_packed(PeakgateTensorKind kind) { return kind >= PEAKGATE_KIND_MXF4; }

PeakgateNumber number_of(PeakgateTensorKind kind, unsigned code, uintptr_t caller) {
    if (kind == PEAKGATE_KIND_F16 && code < 2) return code ? PEAKGATE_BF16 : PEAKGATE_F16;
    if (kind == PEAKGATE_KIND_TF32 && code == 2) return PEAKGATE_TF32;
    if (kind == PEAKGATE_KIND_I8 && code < 2) return code ? PEAKGATE_S8 : PEAKGATE_U8;
    if (kind == PEAKGATE_KIND_F8F6F4 && code < 2) return code ? PEAKGATE_E5M2 : PEAKGATE_E4M3;
    invalid(caller, "instruction descriptor with type %u, which its kind does not have", code);
}

void check_narrow(const Instruction& what, uint32_t bits, uintptr_t caller) {
    const unsigned codes[] = {what.narrow_a, what.narrow_b};
    for (int i = 0; i < 2; ++i) {
        if (codes[i] == 2 || codes[i] > E2M1) invalid(caller, "instruction descriptor with type %u, which its kind does not have", codes[i]);
        if (codes[i] >= E2M3 && (bits >> (15 + i) & 1)) invalid(caller, "instruction descriptor that transposes numbers of type %u", codes[i]);
    }
}

// Rows and columns that a kind has (PTX ISA 9.7.16.2.1).
void check_shape(Instruction& what, const PeakgateTensorProduct& product, uintptr_t caller) {
    what.blocks = product.blocks;
    what.is_stationary = product.is_stationary;
    what.is_sparse = product.is_sparse;
    if (what.is_stationary) {
        if (what.blocks == 2) invalid(caller, "tcgen05.mma.ws by %u blocks", 2);
        if (what.rows != 32 && what.rows != 64 && what.rows != 128) invalid(caller, "instruction descriptor with M = %u, expected 32, 64 or 128", static_cast<unsigned>(what.rows));
        if (what.columns != 64 && what.columns != 128 && what.columns != 256) invalid(caller, "instruction descriptor with N = %u, expected 64, 128 or 256", static_cast<unsigned>(what.columns));
        return;
    }
    const int whole = TENSOR_LANES * what.blocks;
    const bool has_half = what.blocks == 2 || !is_scaled(product.kind);
    if (what.rows != whole && !(has_half && what.rows == whole / 2))
        invalid(caller, what.blocks == 2 ? "instruction descriptor with M = %u, expected 128 or 256 for a pair of blocks" : "instruction descriptor with M = %u, which its kind does not have",
                static_cast<unsigned>(what.rows));
    // The metadata of other rows, and the sums of a pair with 128, are in figures alone.
    if (what.is_sparse && what.rows != whole) not_emulated(caller, "tcgen05.mma.sp of 64 rows of a block");
    int step = 8 * what.blocks;
    if (product.kind == PEAKGATE_KIND_I8 && what.columns > 32) step = 16;
    if (product.kind == PEAKGATE_KIND_I8 && what.blocks == 2) step = 32;
    if (what.columns < step || what.columns > MAX_COLUMNS || what.columns % step)
        invalid(caller, "instruction descriptor with N = %u, which its kind and M do not have", static_cast<unsigned>(what.columns));
}

// The descriptor of a product with block scales, whose fields differ (PTX ISA 9.7.16.4.2).
Instruction described_with_scales(const PeakgateTensorProduct& product, uintptr_t caller) {
    const uint32_t bits = product.instruction;
    const auto field = [&](int shift, int count) { return bits >> shift & ((1u << count) - 1); };
    const bool packed = is_packed(product.kind);
    if (field(31, 1)) not_emulated(caller, "tcgen05.mma of 96 numbers along k");
    const uint32_t reserved = bits & (1u << 6 | 1u << 3 | 3u | 7u << 24 | (packed ? 1u << 12 | 3u << 15 : 0));
    if (reserved) invalid(caller, "instruction descriptor with reserved bits %#x set", reserved);
    Instruction found = {};
    found.is_narrow = true;
    found.narrow_a = field(7, 3);
    found.narrow_b = field(10, packed ? 2 : 3);
    if (!packed) check_narrow(found, bits, caller);
    if (packed && (found.narrow_a != PACKED_E2M1 || found.narrow_b != PACKED_E2M1))
        invalid(caller, "instruction descriptor with types %#x, expected e2m1", found.narrow_a << 4 | found.narrow_b);
    if (packed) found.narrow_a = found.narrow_b = E2M1;
    found.sums = PEAKGATE_F32;
    found.negates_a = field(13, 1);
    found.negates_b = field(14, 1);
    found.transposes_a = field(15, 1);
    found.transposes_b = field(16, 1);
    found.columns = static_cast<int>(field(17, 6)) * 8;
    found.rows = static_cast<int>(field(24, 5)) * 16;
    found.element_bytes = 1;
    found.powers = field(23, 1);
    found.scale_a = static_cast<int>(field(29, 2));
    found.scale_b = static_cast<int>(field(4, 2));
    if (!found.powers && product.scales != MAX_SCALES) invalid(caller, "instruction descriptor with scales of type ue4m3, of which each row has %u", static_cast<unsigned>(product.scales));
    if (found.scale_a % product.scales || found.scale_b % product.scales || (product.scales == MAX_SCALES && found.scale_a + found.scale_b))
        invalid(caller, "instruction descriptor with scales from byte %#x of a word on", static_cast<unsigned>(found.scale_a << 4 | found.scale_b));
    check_shape(found, product, caller);
    if (found.blocks == 2 && found.rows == TENSOR_LANES) not_emulated(caller, "tcgen05.mma.cta_group::2 of 128 rows with block scales");
    return found;
}

Instruction described(const PeakgateTensorProduct& product, uintptr_t caller) {
    const uint32_t bits = product.instruction;
    const auto field = [&](int shift, int count) { return bits >> shift & ((1u << count) - 1); };
    if (static_cast<int>(field(2, 1)) != product.is_sparse) invalid(caller, "instruction descriptor with sparsity %u, expected that of its instruction", field(2, 1));
    if (is_scaled(product.kind)) return described_with_scales(product, caller);
    // The last two bits limit the shift of columns by a mask, which is not emulated.
    const uint32_t reserved = bits & (1u << 6 | 1u << 23 | 1u << 29 | (product.is_stationary ? 0 : 3u << 30) | (product.is_sparse ? 0 : 3u));
    if (reserved) invalid(caller, "instruction descriptor with reserved bits %#x set", reserved);
    Instruction found = {};
    found.narrow_a = field(7, 3);
    found.narrow_b = field(10, 3);
    found.is_narrow = product.kind == PEAKGATE_KIND_F8F6F4 && (found.narrow_a > E5M2 || found.narrow_b > E5M2);
    if (found.is_narrow) check_narrow(found, bits, caller);
    found.a = found.is_narrow ? PEAKGATE_E4M3 : number_of(product.kind, found.narrow_a, caller);
    found.b = found.is_narrow ? PEAKGATE_E4M3 : number_of(product.kind, found.narrow_b, caller);
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
    found.selector = static_cast<int>(field(0, 2));
    if (found.selector && found.element_bytes == 1) invalid(caller, "instruction descriptor with sparsity selector %u, expected 0", field(0, 2));
    if (found.selector > 1) not_emulated(caller, "tcgen05.mma.sp with a sparsity selector above 1");
    check_shape(found, product, caller);
    return found;
}

// How sums lie in the tensor memory of a block (PTX ISA 9.7.16.10.5).
struct Layout {
    int rows, columns; // of the block
    int folds;         // parts of the columns, in lanes further down
    bool is_spread;    // each warp's quarter has 16 rows, in its first lanes or its last ones

    Layout(const Instruction& what)
        : rows(what.rows / what.blocks), columns(what.columns), folds(what.blocks == 2 || what.is_stationary ? TENSOR_LANES / rows : 1),
          is_spread(folds == 1 && rows == TENSOR_LANES / 2) {}
    int width() const { return columns / folds; }
    int lane(int row, int column) const { return is_spread ? row / ROWS_AT_ONCE * WARP + row % ROWS_AT_ONCE : row + rows * (column / width()); }

    // The first lane of an address, which must be 0, or 16 if rows are spread.
    int first_lane(uint32_t address, const char* of, uintptr_t caller) const {
        const uint32_t lane = address >> 16;
        if (lane && !(is_spread && lane == ROWS_AT_ONCE)) {
            report(TENSOR_ACCESS, caller, 0, "tcgen05.mma whose %s from lane %u on, expected 0%s", of, lane, is_spread ? " or 16" : "");
            abandon_launch();
        }
        return static_cast<int>(lane);
    }
};

// Where `peakgate_multiply_rows` has a sum of 16 rows: a register of a lane, of half sums a part of one.
size_t place_of_sum(int row, int column, const PeakgateProduct& product) {
    const int lane = row % 8 * 4 + column % 8 / 2, pair = column / 8 * 2 + row / 8;
    const int register_of = product.number_sums == PEAKGATE_F16 ? pair : pair * 2 + column % 2;
    return static_cast<size_t>(lane * product.registers + register_of);
}

// A number of a sign, `exponent` and `mantissa` bits; those of 8 bits have NaNs, e5m2 infinities too.
float narrow_number(unsigned bits, int exponent, int mantissa) {
    const int size = exponent + mantissa, bias = (1 << (exponent - 1)) - 1;
    const unsigned magnitude = bits & ((1u << size) - 1), fraction = magnitude & ((1u << mantissa) - 1);
    const int power = static_cast<int>(magnitude >> mantissa);
    float number = __builtin_ldexpf(static_cast<float>(power ? fraction | 1u << mantissa : fraction), (power ? power : 1) - bias - mantissa);
    if (size == 7 && exponent == 4 && magnitude == 0x7f) number = __builtin_nanf("");
    if (size == 7 && exponent == 5 && power == 31) number = fraction ? __builtin_nanf("") : __builtin_inff();
    return bits >> size & 1 ? -number : number;
}

float narrow_number(unsigned code, unsigned bits) {
    constexpr struct {
        int exponent, mantissa;
    } formats[] = {{4, 3}, {5, 2}, {}, {2, 3}, {3, 2}, {2, 1}};
    return narrow_number(bits, formats[code].exponent, formats[code].mantissa);
}

// The numbers of a row of 32 bytes: 64 of 4 bits, or 32; of these, 16 of 6 or 4 bits are at the start of 16 bytes (PTX
// ISA 9.7.16.10.4).
void decode_row(const unsigned char* row, unsigned code, bool packed, float* to) {
    if (packed)
        for (int k = 0; k < MAX_DEPTH; ++k) to[k] = narrow_number(code, row[k / 2] >> k % 2 * 4 & 0xfu);
    const unsigned bits = code == E2M1 ? 4 : code >= E2M3 ? 6 : 8, mask = (1u << bits) - 1;
    for (unsigned k = 0; k < ROW_BYTES && !packed; ++k) {
        const unsigned first = k % UNIT * bits, place = k / UNIT * UNIT + first / 8;
        const unsigned both = row[place] | (first % 8 + bits > 8 ? row[place + 1] << 8 : 0u);
        to[k] = narrow_number(code, both >> first % 8 & mask);
    }
}

// Scales of rows in tensor memory: of 32 rows in a column, the same in each warp's lanes (PTX ISA 9.7.16.10.7).
void read_scales(const Part& part, uint32_t address, int rows, int count, int first_byte, bool powers, double (*to)[MAX_SCALES], uintptr_t caller) {
    const int first = static_cast<int>(address & 0xffff);
    check_columns(*part.memory, first, (rows + WARP - 1) / WARP, "mma", caller);
    if (address >> 16 & 0x3fff) not_emulated(caller, "tcgen05.mma whose scales do not begin in lane 0");
    for (int row = 0; row < rows; ++row) {
        const uint32_t word = use_word(part, row % WARP, first + row / WARP, TENSOR_READS).bits;
        for (int quarter = 1; quarter < WARPS_OF_GROUP; ++quarter)
            if (use_word(part, quarter * WARP + row % WARP, first + row / WARP, TENSOR_READS).bits != word)
                not_emulated(caller, "tcgen05.mma whose scales differ between the lanes of the four warps");
        for (int i = 0; i < count; ++i) {
            const unsigned bits = word >> 8 * (first_byte + i) & 0xff;
            to[row][i] = !powers ? static_cast<double>(narrow_number(E4M3, bits & 0x7f)) : bits == 0xff ? __builtin_nan("") : __builtin_ldexp(1.0, static_cast<int>(bits) - 127);
        }
    }
}

// Reads the metadata of a sparse A, those of the own rows in each block. Where they lie is in figures of the PTX ISA alone
// (9.7.16.10.8.4); it is as CuTe's `tmem_e_frg` and JAX's `format_tcgen05_sparse_metadata` have them. Numbers of 32 and 16
// bits have a column, of the two that the selector chooses from, whose words are for 16 columns of A of two rows; the others
// have two columns, with a lane for each row.
void read_metadata(const PeakgateTensorProduct& asked, const Instruction& what, const Part& part, uintptr_t caller, Selected& to) {
    constexpr int columns = 2, chunks_of_word = 8, rows_of_half = 8;
    const int first = static_cast<int>(asked.metadata & 0xffff), bits_of_number = is_packed(asked.kind) ? 4 : 8 * what.element_bytes;
    if (asked.metadata >> 16 || first % columns) not_emulated(caller, "tcgen05.mma.sp whose metadata do not begin in lane 0 of an even column");
    check_columns(*part.memory, first, columns, "mma", caller);
    const int kept = ROW_BYTES * 8 / bits_of_number, of_chunk = width_of_chunk(bits_of_number) / 2;
    for (int row = 0; row < TENSOR_LANES; ++row) {
        for (int chunk = 0; chunk < kept / of_chunk; ++chunk) {
            int lane = row, column = first + chunk / chunks_of_word, shift = chunk % chunks_of_word * 4;
            if (bits_of_number > 8) {
                lane = row / ROWS_AT_ONCE * ROWS_AT_ONCE + chunk / 4 * rows_of_half + row % rows_of_half;
                column = first + what.selector;
                shift = row / rows_of_half % 2 * 16 + chunk % 4 * 4;
            }
            const unsigned bits = use_word(part, lane, column, TENSOR_READS).bits >> shift & 0xf;
            select_columns({bits, bits_of_number, row, chunk, lane, ORDER_LISTED}, caller, to + row * kept + chunk * of_chunk);
        }
    }
}

// What a product of narrow numbers multiplies; too large for a thread's stack.
struct Narrow {
    float a[TENSOR_LANES][MAX_DEPTH], b[2 * MAX_DEPTH][MAX_COLUMNS];
    double scales_a[TENSOR_LANES][MAX_SCALES], scales_b[MAX_COLUMNS][MAX_SCALES];
    int depth, scales; // depth: numbers in a row of A
    const unsigned char* selected; // null: A is dense
};

void decode_narrow(const PeakgateTensorProduct& asked, const Instruction& what, const Part& part, const unsigned char* a, const unsigned char* b,
                   const unsigned char* selected, Narrow& to, uintptr_t caller) {
    const bool packed = is_packed(asked.kind);
    to.depth = packed ? MAX_DEPTH : ROW_BYTES;
    to.scales = asked.scales ? asked.scales : 1;
    to.selected = selected;
    for (int row = 0; row < what.rows / what.blocks; ++row) decode_row(a + row * ROW_BYTES, what.narrow_a, packed, to.a[row]);
    for (int column = 0; column < what.columns; ++column) {
        for (int half = 0; half <= what.is_sparse; ++half) {
            float numbers[MAX_DEPTH];
            decode_row(b + (column * (1 + what.is_sparse) + half) * ROW_BYTES, what.narrow_b, packed, numbers);
            for (int k = 0; k < to.depth; ++k) to.b[half * to.depth + k][column] = numbers[k];
        }
    }
    for (auto& scales : to.scales_a) scales[0] = 1;
    for (auto& scales : to.scales_b) scales[0] = 1;
    if (!asked.scales) return;
    // Each block of a pair has the scales of its rows, and those of all columns.
    read_scales(part, asked.scales_a, what.rows / what.blocks, asked.scales, what.scale_a, what.powers, to.scales_a, caller);
    read_scales(part, asked.scales_b, what.columns, asked.scales, what.scale_b, what.powers, to.scales_b, caller);
}

// Adds the products of a row to its sums, all exactly, as far as doubles go.
void add_narrow(const Narrow& from, int row, int columns, bool negates, double* sums) {
    for (int scale = 0; scale < from.scales; ++scale) {
        const int part = from.depth / from.scales;
        double products[MAX_COLUMNS] = {};
        for (int k = scale * part; k < (scale + 1) * part; ++k) {
            const double of_a = from.a[row][k];
            const float* const of_b = from.b[from.selected ? from.selected[row * from.depth + k] : k];
            for (int column = 0; column < columns; ++column) products[column] += of_a * of_b[column];
        }
        const double factor = negates ? -from.scales_a[row][scale] : from.scales_a[row][scale];
        for (int column = 0; column < columns; ++column) sums[column] += factor * from.scales_b[column][scale] * products[column];
    }
}

double sum_of(uint32_t word, int column, bool halves) {
    return halves ? half_of(word >> column % 2 * 16 & 0xffff) : static_cast<double>(__builtin_bit_cast(float, word));
}

void multiply_narrow(const Narrow& from, const Instruction& what, const PeakgateProduct& product, int first_row, uint32_t* sums) {
    const bool halves = what.sums == PEAKGATE_F16;
    for (int row = 0; row < ROWS_AT_ONCE; ++row) {
        double numbers[MAX_COLUMNS] = {};
        for (int column = 0; column < what.columns && product.adds; ++column)
            numbers[column] = sum_of(sums[place_of_sum(row, column, product)], column, halves);
        add_narrow(from, first_row + row, what.columns, what.negates_a != what.negates_b, numbers);
        for (int column = 0; column < what.columns; ++column) {
            uint32_t& word = sums[place_of_sum(row, column, product)];
            if (halves)
                word = (column % 2 ? word & 0xffff : 0) | to_half(numbers[column]) << column % 2 * 16;
            else
                word = __builtin_bit_cast(uint32_t, static_cast<float>(numbers[column]));
        }
    }
}

// Reads the rows of A of a block.
void gather_a(const PeakgateTensorProduct& asked, const Instruction& what, const Part& part, bool of_other_block, uintptr_t caller, RowsOfA& to) {
    const Layout layout(what);
    if (!asked.a_in_tensor_memory) {
        const Tile tile(asked.a, what.transposes_a, what.element_bytes, ROW_BYTES / UNIT, caller);
        return tile.gather(layout.rows, operation(part), of_other_block, caller, to);
    }
    const int first = static_cast<int>(asked.a & 0xffff);
    if (what.transposes_a) invalid(caller, "instruction descriptor that transposes A in tensor memory (%u)", 1);
    // Each such number has a byte there; which bits of it is in figures alone (9.7.16.10.4.3).
    if (what.narrow_a >= E2M3 && what.is_narrow && !is_packed(asked.kind)) not_emulated(caller, "tcgen05.mma of numbers of 6 or 4 bits in tensor memory");
    if (layout.folds > 1) not_emulated(caller, "tcgen05.mma of rows that fill a part of the lanes with A in tensor memory");
    check_columns(*part.memory, first, ROW_BYTES / 4, "mma", caller);
    const int first_lane = layout.first_lane(static_cast<uint32_t>(asked.a), "A is", caller);
    if (first_lane != static_cast<int>(asked.to >> 16)) {
        report(TENSOR_ACCESS, caller, 0, "tcgen05.mma whose A is from lane %d on, but its sums are from lane %u on", first_lane, asked.to >> 16);
        abandon_launch();
    }
    for (int row = 0; row < layout.rows; ++row)
        for (int i = 0; i < ROW_BYTES / 4; ++i)
            memcpy(to + row * ROW_BYTES + 4 * i, &use_word(part, first_lane + layout.lane(row, 0), first + i, TENSOR_READS).bits, 4);
}

// Multiplies the rows of A of a block, and adds to or replaces the sums in its tensor memory.
void multiply_rows_of_block(const PeakgateTensorProduct& asked, const Instruction& what, const Part& part, const uint32_t* disabled, const RowsOfA& a,
                            const RowsOfB& b, uintptr_t caller) {
    const Layout layout(what);
    static Selected selected;
    if (what.is_sparse) read_metadata(asked, what, part, caller, selected);
    const bool halves = what.sums == PEAKGATE_F16;
    const int first_column = static_cast<int>(asked.to & 0xffff), first_lane = static_cast<int>(asked.to >> 16);
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
    static Narrow narrow;
    if (what.is_narrow) decode_narrow(asked, what, part, a, b, what.is_sparse ? selected : nullptr, narrow, caller);
    for (int first = 0; first < layout.rows; first += ROWS_AT_ONCE) {
        // Calls `use(word, sum)` for the words that are written, with the place of their sum.
        const auto for_words = [&](int how, auto use) {
            for (int row = 0; row < ROWS_AT_ONCE; ++row) {
                for (int column = 0; column < what.columns; ++column) {
                    const int lane = first_lane + layout.lane(first + row, column);
                    if (disabled[lane / WARP] >> lane % WARP & 1) continue;
                    use(use_word(part, lane, first_column + column % layout.width(), how), sums[place_of_sum(row, column, product)], halves * (column % 2 * 16));
                }
            }
        };
        if (asked.adds) {
            memset(sums, 0, sizeof sums);
            for_words(TENSOR_READS | TENSOR_WRITES, [&](const Word& word, uint32_t& sum, int shift) {
                if (asked.halvings)
                    sum = __builtin_bit_cast(uint32_t, __builtin_ldexpf(__builtin_bit_cast(float, word.bits), -asked.halvings));
                else
                    sum |= (halves ? word.bits & 0xffff : word.bits) << shift;
            });
        }
        if (what.is_sparse) product.selected = selected + first * ROW_BYTES / what.element_bytes;
        if (what.is_narrow)
            multiply_narrow(narrow, what, product, first, sums);
        else
            asked.multiply(&product, a + first * ROW_BYTES, b, sums);
        for_words(TENSOR_WRITES, [&](Word& word, uint32_t sum, int shift) { word.bits = halves ? sum >> shift & 0xffff : sum; });
    }
}

void multiply(const PeakgateTensorProduct& asked, uintptr_t caller) {
    const Instruction what = described(asked, caller);
    const uint64_t accumulator = asked.to | static_cast<uint64_t>(what.rows << 9 | what.columns) << 32 | static_cast<uint64_t>(asked.kind << 1 | asked.is_stationary) << 60;
    const Parts parts = begin_operation(MULTIPLIED, accumulator, what.blocks, caller);
    for (int i = 0; i < what.blocks; ++i)
        check_columns(*parts.of[i].memory, static_cast<int>(asked.to & 0xffff), Layout(what).width(), "mma", caller);
    Layout(what).first_lane(asked.to, "sums are", caller);
    // scale-input-d (9.7.16.10.9.1), whose rounding of half sums is open.
    if (asked.halvings < 0 || asked.halvings > 15) invalid(caller, "scale of 2^-%u of the sums, expected 2^-15 to 1", static_cast<unsigned>(asked.halvings));
    if (asked.halvings && what.sums == PEAKGATE_F16) not_emulated(caller, "tcgen05.mma that scales half sums");
    // The ISA's description of the spans in a mask and its examples disagree (9.7.16.4.3).
    if (asked.zero_columns >> 39 & 1 || asked.zero_columns >> 56) not_emulated(caller, "tcgen05.mma.ws with a mask or a shift of columns");
    if (what.blocks == 2 && memcmp(asked.disabled, asked.disabled + 4, 4 * sizeof *asked.disabled) != 0)
        not_emulated(caller, "tcgen05.mma that disables other lanes of one block of the pair than of the other");

    // Of a pair each block has half of the rows of A, and half of those of B.
    static RowsOfA a[2];
    static RowsOfB b;
    const int rows_of_b = what.columns / what.blocks, bytes_of_b = what.is_sparse ? 2 * ROW_BYTES : ROW_BYTES;
    const Tile tile(asked.b, what.transposes_b, what.element_bytes, bytes_of_b / UNIT, caller);
    for (int i = 0; i < what.blocks; ++i) {
        gather_a(asked, what, parts.of[i], i != parts.own, caller, a[i]);
        tile.gather(rows_of_b, operation(parts.of[i]), i != parts.own, caller, b + i * rows_of_b * bytes_of_b);
    }
    for (int i = 0; i < what.blocks; ++i) multiply_rows_of_block(asked, what, parts.of[i], asked.disabled + 4 * i, a[i], b, caller);
}

// Of a pair each block's memory is copied to its own tensor memory (PTX ISA 9.7.16.9.2 leaves it open). The rows of 4x256b
// go to lanes 32 apart, from that of the address on, as CuTe has them (SM100_UTCCP_4dp256bit).
void copy(uint32_t to, uint64_t from, int rows, int units, int repeats, int blocks, uintptr_t caller) {
    constexpr int words = UNIT / 4;
    const int first_column = static_cast<int>(to & 0xffff);
    const bool is_row_of_warps = rows == WARPS_OF_GROUP;
    const Parts parts = begin_operation(COPIED, 0, blocks, caller);
    for (int block = 0; block < blocks; ++block) {
        const Part& part = parts.of[block];
        check_columns(*part.memory, first_column, units * words, "cp", caller);
        if (to >> 16 && !is_row_of_warps) not_emulated(caller, "tcgen05.cp that does not begin in lane 0");
        if (to >> 16 >= WARP) not_emulated(caller, "tcgen05.cp of 4x256b that does not begin in one of the first 32 lanes");
        RowsOfA bytes;
        Tile(from, false, 0, units, caller).gather(rows, operation(part), block != parts.own, caller, bytes);
        for (int lane = 0; lane < TENSOR_LANES; ++lane) {
            const int quarter = lane / WARP;
            if (is_row_of_warps && lane % WARP != static_cast<int>(to >> 16)) continue;
            // Of two halves, each goes to two quarters: the first one to 0 and 2, or to 0 and 1.
            const int half = repeats == 2 ? quarter % 2 : quarter / 2;
            const int row = rows == TENSOR_LANES ? lane : is_row_of_warps ? quarter : repeats == 4 ? lane % WARP : half * WARP + lane % WARP;
            for (int i = 0; i < units * words; ++i)
                memcpy(&use_word(part, lane, first_column + i, TENSOR_WRITES).bits, bytes + row * units * UNIT + 4 * i, 4);
        }
    }
}

} // namespace

} // namespace peakgate

using namespace peakgate;

void peakgate_tensor_multiply(const PeakgateTensorProduct* product, const void* caller) {
    multiply(*product, reinterpret_cast<uintptr_t>(caller));
}

void peakgate_tensor_copy(uint32_t to, uint64_t from, int rows, int units, int repeats, int blocks, const void* caller) {
    copy(to, from, rows, units, repeats, blocks, reinterpret_cast<uintptr_t>(caller));
}
