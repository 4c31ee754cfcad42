// Products of small matrices by a warp, as the tensor cores make them: mma, ldmatrix, stmatrix and movmatrix of PTX.
//
// A matrix is spread over the lanes as the PTX ISA lists its fragments. All 32 lanes meet, the last one to come computes
// for all, and each goes on with its part. Products are exact, and so are their sums but for one rounding to nearest at
// the end; tensor cores cut off, before they add, what lies far below the largest product.
#pragma once

#include "cuda_narrow.h"

// The emulator's own arithmetic: nothing in it is to be checked. What it calls has to be inlined at any price, since
// compilers inline nothing else into a function that is checked less.
#define PEAKGATE_INLINE __attribute__((always_inline)) inline
#define PEAKGATE_UNWATCHED __attribute__((no_sanitize("thread", "bounds", "alignment")))

namespace peakgate_ptx {

// What an element is encoded as: `BITS` of a register, `value` of them.
struct F16 {
    static constexpr int BITS = 16;
    PEAKGATE_INLINE static double value(uint64_t bits) { return peakgate::widened<10, 5>(static_cast<unsigned short>(bits)); }
};
struct BF16 {
    static constexpr int BITS = 16;
    PEAKGATE_INLINE static double value(uint64_t bits) { return peakgate::widened<7, 8>(static_cast<unsigned short>(bits)); }
};
struct TF32 { // the upper 19 bits of a float: the others are not looked at
    static constexpr int BITS = 32;
    PEAKGATE_INLINE static double value(uint64_t bits) { return get<float>(bits & 0xffffe000u); }
};
struct F64 {
    static constexpr int BITS = 64;
    PEAKGATE_INLINE static double value(uint64_t bits) { return get<double>(bits); }
};
// Every number of 8 bits.
template <class T> struct Numbers {
    float of[256];
    Numbers() {
        for (unsigned bits = 0; bits < 256; ++bits) of[bits] = T::widened(static_cast<unsigned char>(bits));
    }
};
template <class T> inline const Numbers<T> numbers;
struct E4M3 {
    static constexpr int BITS = 8;
    PEAKGATE_INLINE static double value(uint64_t bits) { return numbers<__nv_fp8_e4m3>.of[bits]; }
};
struct E5M2 {
    static constexpr int BITS = 8;
    PEAKGATE_INLINE static double value(uint64_t bits) { return numbers<__nv_fp8_e5m2>.of[bits]; }
};
template <int bits, bool is_signed> struct Integer {
    static constexpr int BITS = bits;
    PEAKGATE_INLINE static double value(uint64_t from) {
        const int unsigned_value = static_cast<int>(from & ((1u << bits) - 1));
        return is_signed && unsigned_value >> (bits - 1) ? unsigned_value - (1 << bits) : unsigned_value;
    }
};

// A matrix of sums: float, double, half in pairs, or int32_t, which `clamps` or wraps around.
struct Float32 {
    static constexpr int BITS = 32;
    PEAKGATE_INLINE static double value(uint64_t bits) { return get<float>(bits); }
    PEAKGATE_INLINE static uint64_t encoded(double sum, bool) { return bits(static_cast<float>(sum)); }
};
struct Float64 : F64 {
    PEAKGATE_INLINE static uint64_t encoded(double sum, bool) { return bits(sum); }
};
struct Float16 : F16 {
    PEAKGATE_INLINE static uint64_t encoded(double sum, bool) { return peakgate::narrowed<10, 5>(sum); }
};
struct Int32 {
    static constexpr int BITS = 32;
    PEAKGATE_INLINE static double value(uint64_t bits) { return get<int>(bits); }
    PEAKGATE_INLINE static uint64_t encoded(double sum, bool clamps) {
        const auto whole = static_cast<long long>(sum);
        if (!clamps) return static_cast<uint32_t>(whole);
        return bits(whole > INT32_MAX ? INT32_MAX : whole < INT32_MIN ? INT32_MIN : static_cast<int>(whole));
    }
};

constexpr int LANES = 32;

// The lanes meet; `together` is called once, with what each of them brought.
PEAKGATE_UNWATCHED inline void meet(void* brought, void (*together)(void* const*), const void* caller) {
    const PeakgateWarpCall call = {PEAKGATE_WARP_TOGETHER, ~0u, &brought, nullptr, sizeof brought, 0, warpSize, together};
    peakgate_warp(&call, caller);
}

// Element `i` of a register of several.
template <class T> PEAKGATE_INLINE double element(uint64_t packed, int i) {
    return T::value(T::BITS == 64 ? packed : packed >> (T::BITS * i) & ((1ull << T::BITS % 64) - 1));
}

// ROWS x 8 sums of K products each. In a register are PER elements of A or B, neighbours along k.
template <int ROWS, int K, class A, class B, class C> struct Product {
    static constexpr int PER_A = A::BITS < 32 ? 32 / A::BITS : 1, PER_B = B::BITS < 32 ? 32 / B::BITS : 1;
    static constexpr int OF_A = ROWS * K / LANES / PER_A, OF_B = 8 * K / LANES / PER_B;
    static constexpr int PER_C = C::BITS == 16 ? 2 : 1, OF_C = ROWS * 8 / LANES / PER_C;
    struct Sums {
        uint64_t of[OF_C];
    };
    struct Lane {
        uint64_t a[OF_A], b[OF_B], c[OF_C];
        Sums sums;
        bool clamps;
    };

    // Kernels are built with -O1; this is most of what they do.
    PEAKGATE_UNWATCHED __attribute__((optimize("O2"))) static void together(void* const* all) {
        const auto* lanes = reinterpret_cast<Lane* const*>(all);
        double a[ROWS][K], b[K][8], sums[ROWS][8];
        for (int lane = 0; lane < LANES; ++lane) {
            const int group = lane / 4, first = lane % 4;
            for (int r = 0; r < OF_A; ++r) {
                const int block = ROWS == 16 ? r / 2 : r, row = group + (ROWS == 16 ? r % 2 * 8 : 0);
                for (int i = 0; i < PER_A; ++i)
                    a[row][(block * 4 + first) * PER_A + i] = element<A>(lanes[lane]->a[r], i);
            }
            for (int r = 0; r < OF_B; ++r)
                for (int i = 0; i < PER_B; ++i)
                    b[(r * 4 + first) * PER_B + i][group] = element<B>(lanes[lane]->b[r], i);
            for (int n = 0; n < OF_C * PER_C; ++n)
                sums[group + n / 2 * 8][first * 2 + n % 2] = element<C>(lanes[lane]->c[n / PER_C], n % PER_C);
        }
        peakgate_multiply(&a[0][0], &b[0][0], &sums[0][0], K, 8, ROWS);
        for (int lane = 0; lane < LANES; ++lane) {
            for (int n = 0; n < OF_C * PER_C; ++n) {
                const int row = lane / 4 + n / 2 * 8, col = lane % 4 * 2 + n % 2;
                const int r = n / PER_C, at = n % PER_C;
                const uint64_t encoded = C::encoded(sums[row][col], lanes[lane]->clamps) << (C::BITS % 64 * at);
                uint64_t& to = lanes[lane]->sums.of[r];
                to = at ? to | encoded : encoded;
            }
        }
    }
};

// Registers of A, then of B, then of the sums: as values, for an array's elements would be watched.
template <int ROWS, int K, class A, class B, class C, class... R>
__attribute__((noinline)) PEAKGATE_UNWATCHED typename Product<ROWS, K, A, B, C>::Sums mma(bool clamps, R... registers) {
    using Of = Product<ROWS, K, A, B, C>;
    static_assert(sizeof...(R) == Of::OF_A + Of::OF_B + Of::OF_C, "as many registers as the shape has");
    const uint64_t given[] = {registers...};
    typename Of::Lane lane;
    for (int i = 0; i < Of::OF_A; ++i) lane.a[i] = given[i];
    for (int i = 0; i < Of::OF_B; ++i) lane.b[i] = given[Of::OF_A + i];
    for (int i = 0; i < Of::OF_C; ++i) lane.c[i] = given[Of::OF_A + Of::OF_B + i];
    lane.clamps = clamps;
    meet(&lane, Of::together, __builtin_return_address(0));
    return lane.sums;
}

// COUNT matrices of 8 x 8 elements of 16 bits. Lanes 8 m to 8 m + 7 have the rows of matrix m, 16 bytes each; of the
// fragments a lane has two neighbours of row lane / 4, or of column lane / 4 where it is transposed.
template <int COUNT, bool TRANSPOSED> struct Matrices {
    struct Lane {
        unsigned short row[8];
        uint64_t* fragments;
    };
    static unsigned short& place(Lane* const* lanes, int matrix, int lane, int i) {
        const int row = TRANSPOSED ? lane % 4 * 2 + i : lane / 4, col = TRANSPOSED ? lane / 4 : lane % 4 * 2 + i;
        return lanes[8 * matrix + row]->row[col];
    }
    __attribute__((no_sanitize("thread"))) static void load(void* const* all) {
        auto* const* lanes = reinterpret_cast<Lane* const*>(all);
        for (int m = 0; m < COUNT; ++m)
            for (int lane = 0; lane < LANES; ++lane)
                lanes[lane]->fragments[m] = place(lanes, m, lane, 0) | static_cast<uint64_t>(place(lanes, m, lane, 1)) << 16;
    }
    __attribute__((no_sanitize("thread"))) static void store(void* const* all) {
        auto* const* lanes = reinterpret_cast<Lane* const*>(all);
        for (int m = 0; m < COUNT; ++m)
            for (int lane = 0; lane < LANES; ++lane)
                for (int i = 0; i < 2; ++i)
                    place(lanes, m, lane, i) = static_cast<unsigned short>(lanes[lane]->fragments[m] >> (16 * i));
    }
};

template <int COUNT, bool TRANSPOSED> PEAKGATE_PTX_CALL void load_matrices(uint64_t* fragments, const char* address) {
    typename Matrices<COUNT, TRANSPOSED>::Lane lane = {{}, fragments};
    if (static_cast<int>(rank() % LANES) < 8 * COUNT) {
        peakgate_row(address, 16, 0, __builtin_return_address(0));
        __builtin_memcpy(lane.row, address, 16);
    }
    meet(&lane, Matrices<COUNT, TRANSPOSED>::load, __builtin_return_address(0));
}

template <int COUNT, bool TRANSPOSED> PEAKGATE_PTX_CALL void store_matrices(char* address, uint64_t* fragments) {
    typename Matrices<COUNT, TRANSPOSED>::Lane lane = {{}, fragments};
    meet(&lane, Matrices<COUNT, TRANSPOSED>::store, __builtin_return_address(0));
    if (static_cast<int>(rank() % LANES) < 8 * COUNT) {
        peakgate_row(address, 16, 1, __builtin_return_address(0));
        __builtin_memcpy(address, lane.row, 16);
    }
}

// movmatrix: the fragment of the transposed matrix.
struct Moved {
    uint64_t from, to;

    __attribute__((no_sanitize("thread"))) static void together(void* const* all) {
        auto* const* lanes = reinterpret_cast<Moved* const*>(all);
        for (int lane = 0; lane < LANES; ++lane) {
            lanes[lane]->to = 0;
            for (int i = 0; i < 2; ++i) {
                const int row = lane % 4 * 2 + i, col = lane / 4; // of what is transposed
                const uint64_t element = lanes[4 * row + col / 2]->from >> (16 * (col % 2)) & 0xffffu;
                lanes[lane]->to |= element << (16 * i);
            }
        }
    }
};

PEAKGATE_PTX_CALL inline uint64_t transposed_matrix(uint64_t fragment) {
    Moved lane = {fragment, 0};
    meet(&lane, Moved::together, __builtin_return_address(0));
    return lane.to;
}

} // namespace peakgate_ptx
