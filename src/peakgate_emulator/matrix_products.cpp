// Products of small matrices: converts fragments to numbers, computes the sums, and converts them back.
//
// A matrix is distributed over the lanes as the PTX ISA defines its fragments. Products are exact, and so are their
// sums except for one rounding to nearest at the end; tensor cores truncate terms far below the largest product before
// they add. It is linked to the kernels that need it, since it takes longest to compile. Eight numbers are converted and added at once, if the processor's vectors are wide enough.
#include "halves.h"
#include "sparse.h"

#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace peakgate {

namespace {

constexpr int EIGHT = 8, LANES_OF_ROW = 4, MAX_ROWS = 16, MAX_DEPTH = 128, BYTES_OF_ROW = 32;
typedef uint32_t Words __attribute__((vector_size(32)));
typedef int32_t Ints __attribute__((vector_size(32)));
typedef float Floats __attribute__((vector_size(32)));

#ifdef __x86_64__
#define WIDE __attribute__((target("avx2,fma")))
bool has_wide_vectors() {
    unsigned a, b, c, d, enabled, upper;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA)) return false;
    asm("xgetbv" : "=a"(enabled), "=d"(upper) : "c"(0));
    return (enabled & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
const bool is_wide = has_wide_vectors();
#else
#define WIDE
constexpr bool is_wide = false;
#endif

template <class T> struct VectorOf {
    typedef T type __attribute__((vector_size(32), aligned(alignof(T))));
};

ALWAYS_INLINE void select(Words& to, const Ints& where, const Words& from) {
    to = (__builtin_bit_cast(Words, where) & from) | (~__builtin_bit_cast(Words, where) & to);
}

// Numbers of a sign, `exponent` and `mantissa` bits. In e4m3 the largest exponent has numbers, except for NaN.
template <int mantissa, int exponent> ALWAYS_INLINE void widen(const Words& from, Floats& to) {
    constexpr int bias = (1 << (exponent - 1)) - 1, size = mantissa + exponent;
    constexpr bool has_infinity = mantissa != 3;
    const Words magnitude = from & ((1u << size) - 1);
    const Ints whole = __builtin_bit_cast(Ints, magnitude);
    Words number = (magnitude << (23 - mantissa)) + ((127u - bias) << 23);
    const Floats small = __builtin_convertvector(whole, Floats) * (mantissa == 10 ? 0x1p-24f : mantissa == 3 ? 0x1p-9f : 0x1p-16f);
    select(number, whole < 1 << mantissa, __builtin_bit_cast(Words, small));
    constexpr int special = has_infinity ? ((1 << exponent) - 1) << mantissa : (1 << size) - 1;
    select(number, whole >= special, (magnitude << (23 - mantissa)) | 0x7f800000u);
    number |= (from >> size & 1u) << 31;
    to = __builtin_bit_cast(Floats, number);
}

int bits_of(PeakgateNumber kind) {
    switch (kind) {
    case PEAKGATE_F64:
        return 64;
    case PEAKGATE_TF32:
    case PEAKGATE_F32:
    case PEAKGATE_S32:
        return 32;
    case PEAKGATE_F16:
    case PEAKGATE_BF16:
        return 16;
    case PEAKGATE_S4:
    case PEAKGATE_U4:
        return 4;
    default:
        return 8;
    }
}
int per_register(PeakgateNumber kind) { return bits_of(kind) < 32 ? 32 / bits_of(kind) : 1; }

// Applies `number` to each part of eight registers: the results for one part are adjacent, the next part's are `step`
// further.
template <int PARTS, class N, class F> ALWAYS_INLINE void decode_parts(N* to, int step, F number) {
#pragma GCC unroll 8
    for (int part = 0; part < PARTS; ++part) {
        Floats numbers;
        number(part, numbers);
#pragma GCC unroll 8
        for (int i = 0; i < EIGHT; ++i) to[part * step + i] = static_cast<N>(numbers[i]);
    }
}
template <int bits, bool is_signed, class N> ALWAYS_INLINE void decode_integers(const Words& words, N* to, int step) {
    decode_parts<32 / bits>(to, step, [&](int part, Floats& numbers) __attribute__((always_inline)) {
        const Words upper = words << (32 - bits - bits * part);
        const Words whole = upper >> (32 - bits);
        const Ints with_sign = __builtin_bit_cast(Ints, upper) >> (32 - bits);
        numbers = __builtin_convertvector(is_signed ? with_sign : __builtin_bit_cast(Ints, whole), Floats);
    });
}
template <int mantissa, int exponent, class N> ALWAYS_INLINE void decode_floats(const Words& words, N* to, int step) {
    constexpr int bits = 1 + mantissa + exponent;
    decode_parts<32 / bits>(to, step, [&](int part, Floats& numbers) __attribute__((always_inline)) {
        widen<mantissa, exponent>(words >> (bits * part), numbers);
    });
}

template <class N> ALWAYS_INLINE void decode_any(PeakgateNumber kind, const uint32_t* registers, N* to, int step) {
    Words words;
    memcpy(&words, registers, sizeof words);
    switch (kind) {
    case PEAKGATE_F16:
        return decode_floats<10, 5>(words, to, step);
    case PEAKGATE_E5M2:
        return decode_floats<2, 5>(words, to, step);
    case PEAKGATE_E4M3:
        return decode_floats<3, 4>(words, to, step);
    case PEAKGATE_BF16:
        return decode_parts<2>(to, step, [&](int part, Floats& numbers) __attribute__((always_inline)) {
            const Words bits = words >> (16 * part) << 16;
            numbers = __builtin_bit_cast(Floats, bits);
        });
    case PEAKGATE_TF32: // the upper 19 bits; the others are ignored
        return decode_parts<1>(to, step, [&](int, Floats& numbers) __attribute__((always_inline)) {
            const Words bits = words & 0xffffe000u;
            numbers = __builtin_bit_cast(Floats, bits);
        });
    case PEAKGATE_S8:
        return decode_integers<8, true>(words, to, step);
    case PEAKGATE_U8:
        return decode_integers<8, false>(words, to, step);
    case PEAKGATE_S4:
        return decode_integers<4, true>(words, to, step);
    default:
        return decode_integers<4, false>(words, to, step);
    }
}

// Not inlined: every product would contain the code for every number format, which takes seconds to compile.
template <class N> __attribute__((noinline)) void decode_narrow(PeakgateNumber kind, const uint32_t* registers, N* to, int step) {
    decode_any(kind, registers, to, step);
}
template <class N> WIDE __attribute__((noinline)) void decode_wide(PeakgateNumber kind, const uint32_t* registers, N* to, int step) {
    decode_any(kind, registers, to, step);
}
template <class N> ALWAYS_INLINE void decode(PeakgateNumber kind, const uint32_t* registers, N* to, int step) {
    is_wide ? decode_wide(kind, registers, to, step) : decode_narrow(kind, registers, to, step);
}

// sums += a . b, where a has `depth` x `rows` numbers and b `depth` x `columns`. Computes four rows of eight columns at
// once.
template <class N> ALWAYS_INLINE void add_products(const N* a, const N* b, N* sums, int depth, int columns, int rows) {
    using Vector = typename VectorOf<N>::type;
    constexpr int lanes = 32 / sizeof(N), parts = EIGHT / lanes, at_once = 4;
    for (int col = 0; col < columns; col += EIGHT) {
        for (int row = 0; row < rows; row += at_once) {
            N* const place = sums + row * columns + col;
            Vector sum[at_once * parts];
#pragma GCC unroll 8
            for (int i = 0; i < at_once * parts; ++i) memcpy(&sum[i], place + i / parts * columns + i % parts * lanes, sizeof(Vector));
            for (int k = 0; k < depth; ++k) {
                Vector of_b[parts];
                memcpy(of_b, b + k * columns + col, sizeof of_b);
#pragma GCC unroll 8
                for (int i = 0; i < at_once * parts; ++i) sum[i] += a[k * rows + row + i / parts] * of_b[i % parts];
            }
#pragma GCC unroll 8
            for (int i = 0; i < at_once * parts; ++i) memcpy(place + i / parts * columns + i % parts * lanes, &sum[i], sizeof(Vector));
        }
    }
}

// The same for eight columns of doubles with fused multiply-adds, as on a GPU; if the processor has them, the compiler
// uses them in `add_products` too. Other products are exact, so fusing makes no difference.
template <class N> ALWAYS_INLINE void add_fused(const N* a, const N* b, N* sums, int depth, int rows) {
    for (int row = 0; row < rows; ++row)
        for (int col = 0; col < EIGHT; ++col)
            for (int k = 0; k < depth; ++k)
                sums[row * EIGHT + col] = static_cast<N>(__builtin_fma(a[k * rows + row], b[k * EIGHT + col], sums[row * EIGHT + col]));
}

// The column of each number of a sparse A, by row, from the metadata in the first register of some lanes of each quad. A lane
// has those of four chunks of two rows, or of eight chunks of one row if numbers have 8 or 4 bits; the selector says which
// lanes.
void select_columns(const PeakgateWarpProduct& product, uint64_t* const* registers, uintptr_t caller, unsigned char* columns) {
    const int bits_of_a = bits_of(product.a), width = width_of_chunk(bits_of_a);
    const bool is_narrow = bits_of_a <= 8;
    const int chunks = product.depth / width, kept = product.depth / 2;
    const auto selector = static_cast<uint32_t>(registers[0][1]);
    const auto lanes = static_cast<uint32_t>(chunks / 4); // of a quad: 32 bits each, for the chunks of two rows
    if (selector >= LANES_OF_ROW / lanes) {
        report(INVALID_METADATA, caller, 0, "sparsity selector %u given, expected one below %u", selector, LANES_OF_ROW / lanes);
        abandon_launch();
    }
    for (int row = 0; row < MAX_ROWS; ++row) {
        for (int chunk = 0; chunk < chunks; ++chunk) {
            const int half = row / EIGHT, part = is_narrow ? chunk / EIGHT * 2 + half : chunk / LANES_OF_ROW;
            const int lane = row % EIGHT * LANES_OF_ROW + static_cast<int>(selector * lanes) + part;
            const int shift = is_narrow ? chunk % EIGHT * 4 : half * 16 + chunk % LANES_OF_ROW * 4;
            const auto bits = static_cast<unsigned>(registers[lane][0] >> shift & 0xf);
            const Chunk of = {bits, bits_of_a, row, chunk, lane, product.sparsity == PEAKGATE_SPARSE_ORDERED ? ORDER_ASCENDS : ORDER_UNKNOWN};
            select_columns(of, caller, columns + row * kept + chunk * (width / 2));
        }
    }
}

// sums += a . b, where a has `kept` numbers per row, and `selected` says which rows of b they multiply.
template <class N>
ALWAYS_INLINE void add_selected(const N* a, const N* b, N* sums, const unsigned char* selected, int kept, int columns, int rows) {
    for (int row = 0; row < rows; ++row)
        for (int k = 0; k < kept; ++k)
            for (int col = 0; col < columns; ++col) sums[row * columns + col] += a[k * rows + row] * b[selected[row * kept + k] * columns + col];
}

// Calls `pair(lane, r, numbers)` for all pairs of neighbouring sums in a row, which are the registers from `r` on of
// the lane; eight columns at a time.
template <PeakgateNumber SUMS, class N, class F> ALWAYS_INLINE void for_pairs(int rows, int columns, N* sums, F pair) {
    constexpr int registers = SUMS == PEAKGATE_F16 ? 1 : 2;
    for (int row = 0; row < rows; ++row)
        for (int col = 0; col < columns; col += EIGHT)
            for (int i = 0; i < LANES_OF_ROW; ++i)
                pair(row % EIGHT * LANES_OF_ROW + i, (col / EIGHT * 2 + row / EIGHT) * registers, sums + row * columns + col + 2 * i);
}

// Reads the sums; `of(lane, r)` is a register.
template <PeakgateNumber SUMS, class N, class F> ALWAYS_INLINE void take_sums(int rows, int columns, N* sums, F of) {
    for_pairs<SUMS>(rows, columns, sums, [&](int lane, int r, N* numbers) __attribute__((always_inline)) {
        for (int i = 0; i < 2; ++i) {
            if (SUMS == PEAKGATE_F16) {
                numbers[i] = static_cast<N>(half_of(static_cast<uint32_t>(of(lane, r)) >> (16 * i) & 0xffffu));
            } else if (SUMS == PEAKGATE_F64) {
                memcpy(&numbers[i], &of(lane, r + i), sizeof(N));
            } else {
                numbers[i] = static_cast<N>(__builtin_bit_cast(float, static_cast<uint32_t>(of(lane, r + i))));
            }
        }
    });
}

// Writes the sums. Integers are added here to the initial values, clamped or with wrap-around.
template <PeakgateNumber SUMS, class N, class F>
ALWAYS_INLINE void give_sums(bool clamps, int rows, int columns, N* sums, F of) {
    for_pairs<SUMS>(rows, columns, sums, [&](int lane, int r, const N* numbers) __attribute__((always_inline)) {
        if (SUMS == PEAKGATE_F16) of(lane, r) = to_half(static_cast<double>(numbers[0])) | to_half(static_cast<double>(numbers[1])) << 16;
        for (int i = 0; i < 2 && SUMS != PEAKGATE_F16; ++i) {
            auto& to = of(lane, r + i);
            if (SUMS == PEAKGATE_F64) {
                memcpy(&to, &numbers[i], sizeof(N));
            } else if (SUMS == PEAKGATE_F32) {
                to = __builtin_bit_cast(uint32_t, static_cast<float>(numbers[i]));
            } else {
                const int64_t sum = static_cast<int32_t>(to) + static_cast<int64_t>(numbers[i]);
                const int64_t clamped = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
                to = static_cast<uint32_t>(clamps ? clamped : sum);
            }
        }
    });
}

// Sums of products of 8-bit integers are exact in single precision.
template <PeakgateNumber SUMS> struct Sum {
    using type = double;
};
template <> struct Sum<PEAKGATE_S32> {
    using type = float;
};

// A row of A, or a column of B, is in four lanes; the next register is eight rows below, if there are as many, or
// further along k.
template <class N> ALWAYS_INLINE void gather(PeakgateNumber kind, uint64_t* const* registers, int first_register, int count, int halves, N* to) {
    const int size = EIGHT * halves;
    for (int r = 0; r < count; ++r) {
        for (int first = 0; first < LANES_OF_ROW; ++first) {
            N* const place = to + (r / halves * LANES_OF_ROW + first) * per_register(kind) * size + r % halves * EIGHT;
            uint64_t bits[EIGHT];
            uint32_t words[EIGHT];
            for (int i = 0; i < EIGHT; ++i) {
                bits[i] = registers[i * LANES_OF_ROW + first][first_register + r];
                words[i] = static_cast<uint32_t>(bits[i]);
            }
            if (kind == PEAKGATE_F64)
                memcpy(place, bits, sizeof bits);
            else
                decode(kind, words, place, size);
        }
    }
}

template <PeakgateNumber SUMS>
ALWAYS_INLINE void multiply_fragments(const PeakgateWarpProduct& product, uint64_t* const* registers, const unsigned char* columns) {
    using N = typename Sum<SUMS>::type;
    N a[MAX_DEPTH * MAX_ROWS], b[MAX_DEPTH * EIGHT], sums[MAX_ROWS * EIGHT] = {};
    const int rows = product.rows, depth = product.depth, halves = rows / EIGHT, kept = columns ? depth / 2 : depth;
    const int of_b = depth / LANES_OF_ROW / per_register(product.b), of_a = kept / LANES_OF_ROW / per_register(product.a) * halves;
    const auto sum = [&](int lane, int r) -> uint64_t& { return registers[lane][of_a + of_b + r]; };
    gather(product.a, registers, 0, of_a, halves, a);
    gather(product.b, registers, of_a, of_b, 1, b);
    if (SUMS != PEAKGATE_S32) take_sums<SUMS>(rows, EIGHT, sums, sum);
    if (columns)
        add_selected(a, b, sums, columns, kept, EIGHT, rows);
    else if (SUMS == PEAKGATE_F64 && !is_wide)
        add_fused(a, b, sums, depth, rows);
    else
        add_products(a, b, sums, depth, EIGHT, rows);
    give_sums<SUMS>(product.clamps, rows, EIGHT, sums, sum);
}

// The same for rows of so many bytes along k.
template <class N> ALWAYS_INLINE void gather(PeakgateNumber kind, const unsigned char* rows, int bytes_of_row, int count, N* to) {
    for (int row = 0; row < count; row += EIGHT) {
        for (int word = 0; word < bytes_of_row / 4; ++word) {
            uint32_t words[EIGHT];
            for (int i = 0; i < EIGHT; ++i) memcpy(&words[i], rows + (row + i) * bytes_of_row + 4 * word, 4);
            decode(kind, words, to + word * per_register(kind) * count + row, count);
        }
    }
}

// 16 rows of A, and as many rows of B as the sums have columns; computed 64 or eight columns at a time.
template <PeakgateNumber SUMS>
ALWAYS_INLINE void multiply_rows(const PeakgateProduct& product, const unsigned char* rows_of_a, const unsigned char* rows_of_b, uint32_t* values) {
    using N = typename Sum<SUMS>::type;
    constexpr int most = 64;
    N a[BYTES_OF_ROW * MAX_ROWS], b[2 * BYTES_OF_ROW * most], sums[MAX_ROWS * most];
    const int bytes_of_b = product.selected ? 2 * BYTES_OF_ROW : BYTES_OF_ROW;
    const int depth = BYTES_OF_ROW * 8 / bits_of(product.number_a), at_once = product.columns % most ? EIGHT : most;
    gather(product.number_a, rows_of_a, BYTES_OF_ROW, MAX_ROWS, a);
    if (product.scale_a * product.scale_b < 0)
        for (int i = 0; i < depth * MAX_ROWS; ++i) a[i] = -a[i];
    if (!product.adds) memset(values, 0, static_cast<size_t>(WARP * product.registers) * sizeof *values);
    for (int first = 0; first < product.columns; first += at_once) {
        const int before = product.registers * first / product.columns;
        const auto sum = [&](int lane, int r) -> uint32_t& { return values[lane * product.registers + before + r]; };
        gather(product.number_b, rows_of_b + first * bytes_of_b, bytes_of_b, at_once, b);
        memset(sums, 0, sizeof sums);
        if (SUMS != PEAKGATE_S32) take_sums<SUMS>(MAX_ROWS, at_once, sums, sum);
        if (product.selected)
            add_selected(a, b, sums, product.selected, depth, at_once, MAX_ROWS);
        else
            add_products(a, b, sums, depth, at_once, MAX_ROWS);
        give_sums<SUMS>(product.clamps, MAX_ROWS, at_once, sums, sum);
    }
}

ALWAYS_INLINE void multiply_as_needed(const PeakgateWarpProduct& product, uint64_t* const* registers, const unsigned char* columns) {
    if (product.sums == PEAKGATE_S32) return multiply_fragments<PEAKGATE_S32>(product, registers, columns);
    if (product.sums == PEAKGATE_F16) return multiply_fragments<PEAKGATE_F16>(product, registers, columns);
    if (product.sums == PEAKGATE_F64) return multiply_fragments<PEAKGATE_F64>(product, registers, columns);
    multiply_fragments<PEAKGATE_F32>(product, registers, columns);
}
ALWAYS_INLINE void multiply_as_needed(const PeakgateProduct& product, const unsigned char* a, const unsigned char* b, uint32_t* values) {
    if (product.number_sums == PEAKGATE_S32) return multiply_rows<PEAKGATE_S32>(product, a, b, values);
    if (product.number_sums == PEAKGATE_F16) return multiply_rows<PEAKGATE_F16>(product, a, b, values);
    multiply_rows<PEAKGATE_F32>(product, a, b, values);
}

WIDE void multiply_wide(const PeakgateWarpProduct& product, uint64_t* const* registers, const unsigned char* columns) {
    multiply_as_needed(product, registers, columns);
}
WIDE void multiply_wide(const PeakgateProduct& product, const unsigned char* a, const unsigned char* b, uint32_t* values) {
    multiply_as_needed(product, a, b, values);
}

} // namespace

} // namespace peakgate

using namespace peakgate;

void peakgate_multiply_rows(const PeakgateProduct* product, const unsigned char* a, const unsigned char* b, uint32_t* values) {
    is_wide ? multiply_wide(*product, a, b, values) : multiply_as_needed(*product, a, b, values);
}

void peakgate_multiply(void* const* offered) {
    const auto* const* lanes = reinterpret_cast<const PeakgateFragments* const*>(offered);
    const PeakgateWarpProduct& product = *lanes[0]->product;
    const auto caller = reinterpret_cast<uintptr_t>(lanes[0]->caller);
    uint64_t* registers[WARP];
    for (int lane = 0; lane < WARP; ++lane) {
        registers[lane] = lanes[lane]->registers;
        if (lanes[lane]->product == &product || memcmp(lanes[lane]->product, &product, sizeof product) == 0) continue;
        report(WARP_MASK, caller, 0, "lanes of one warp meet in products of different kinds");
        abandon_launch();
    }
    unsigned char columns[MAX_ROWS * MAX_DEPTH / 2];
    const bool is_sparse = product.sparsity != PEAKGATE_DENSE;
    if (is_sparse) select_columns(product, registers, caller, columns);
    for (int lane = 0; lane < WARP && is_sparse; ++lane) registers[lane] += 2; // behind the metadata and the selector
    const unsigned char* const selected = is_sparse ? columns : nullptr;
    is_wide ? multiply_wide(product, registers, selected) : multiply_as_needed(product, registers, selected);
}
