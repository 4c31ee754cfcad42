// Products of small matrices by a warp, as the tensor cores make them: mma, ldmatrix, stmatrix and movmatrix of PTX.
//
// A matrix is spread over the lanes as the PTX ISA lists its fragments. All 32 lanes meet, the last one to come computes
// for all, and each goes on with its part. Products are exact, and so are their sums but for one rounding to nearest at
// the end; tensor cores cut off, before they add, what lies far below the largest product.
#pragma once

#include "cuda_narrow.h"

namespace peakgate_ptx {

// What an element is encoded as: `BITS` of a register, `value` of them.
struct F16 {
    static constexpr int BITS = 16;
    static double value(uint64_t bits) { return peakgate::widened<10, 5>(static_cast<unsigned short>(bits)); }
};
struct BF16 {
    static constexpr int BITS = 16;
    static double value(uint64_t bits) { return peakgate::widened<7, 8>(static_cast<unsigned short>(bits)); }
};
struct TF32 { // the upper 19 bits of a float: the others are not looked at
    static constexpr int BITS = 32;
    static double value(uint64_t bits) { return get<float>(bits & 0xffffe000u); }
};
struct F64 {
    static constexpr int BITS = 64;
    static double value(uint64_t bits) { return get<double>(bits); }
};
struct E4M3 {
    static constexpr int BITS = 8;
    static double value(uint64_t bits) { return __nv_fp8_e4m3::widened(static_cast<unsigned char>(bits)); }
};
struct E5M2 {
    static constexpr int BITS = 8;
    static double value(uint64_t bits) { return __nv_fp8_e5m2::widened(static_cast<unsigned char>(bits)); }
};
template <int bits, bool is_signed> struct Integer {
    static constexpr int BITS = bits;
    static double value(uint64_t from) {
        const int unsigned_value = static_cast<int>(from & ((1u << bits) - 1));
        return is_signed && unsigned_value >> (bits - 1) ? unsigned_value - (1 << bits) : unsigned_value;
    }
};

// A matrix of sums: float, double, half in pairs, or int32_t, which `clamps` or wraps around.
struct Float32 {
    static constexpr int BITS = 32;
    static double value(uint64_t bits) { return get<float>(bits); }
    static uint64_t encoded(double sum, bool) { return bits(static_cast<float>(sum)); }
};
struct Float64 : F64 {
    static uint64_t encoded(double sum, bool) { return bits(sum); }
};
struct Float16 : F16 {
    static uint64_t encoded(double sum, bool) { return peakgate::narrowed<10, 5>(sum); }
};
struct Int32 {
    static constexpr int BITS = 32;
    static double value(uint64_t bits) { return get<int>(bits); }
    static uint64_t encoded(double sum, bool clamps) {
        const auto whole = static_cast<long long>(sum);
        if (!clamps) return static_cast<uint32_t>(whole);
        return bits(whole > INT32_MAX ? INT32_MAX : whole < INT32_MIN ? INT32_MIN : static_cast<int>(whole));
    }
};

constexpr int LANES = 32;

// The lanes meet; `together` is called once, with what each of them brought.
inline void meet(void* brought, void (*together)(void* const*), const void* caller) {
    const PeakgateWarpCall call = {PEAKGATE_WARP_TOGETHER, ~0u, &brought, nullptr, sizeof brought, 0, warpSize, together};
    peakgate_warp(&call, caller);
}

// Element `i` of a register of several.
template <class T> inline double element(uint64_t packed, int i) {
    return T::value(T::BITS == 64 ? packed : packed >> (T::BITS * i) & ((1ull << T::BITS % 64) - 1));
}

// ROWS x 8 sums of K products each. In a register are PER elements of A or B, neighbours along k.
template <int ROWS, int K, class A, class B, class C> struct Product {
    static constexpr int PER_A = A::BITS < 32 ? 32 / A::BITS : 1, PER_B = B::BITS < 32 ? 32 / B::BITS : 1;
    static constexpr int OF_A = ROWS * K / LANES / PER_A, OF_B = 8 * K / LANES / PER_B;
    static constexpr int PER_C = C::BITS == 16 ? 2 : 1, OF_C = ROWS * 8 / LANES / PER_C;
    struct Lane {
        const uint64_t *a, *b, *c;
        uint64_t* sums;
        bool clamps;
    };

    __attribute__((no_sanitize("thread"))) static void together(void* const* all) {
        const auto* lanes = reinterpret_cast<Lane* const*>(all);
        double a[ROWS][K], b[8][K];
        for (int lane = 0; lane < LANES; ++lane) {
            const int group = lane / 4, first = lane % 4;
            for (int r = 0; r < OF_A; ++r) {
                const int block = ROWS == 16 ? r / 2 : r, row = group + (ROWS == 16 ? r % 2 * 8 : 0);
                for (int i = 0; i < PER_A; ++i)
                    a[row][(block * 4 + first) * PER_A + i] = element<A>(lanes[lane]->a[r], i);
            }
            for (int r = 0; r < OF_B; ++r)
                for (int i = 0; i < PER_B; ++i)
                    b[group][(r * 4 + first) * PER_B + i] = element<B>(lanes[lane]->b[r], i);
        }
        for (int lane = 0; lane < LANES; ++lane) {
            for (int n = 0; n < OF_C * PER_C; ++n) {
                const int row = lane / 4 + n / 2 * 8, col = lane % 4 * 2 + n % 2;
                const int r = n / PER_C, at = n % PER_C;
                double sum = element<C>(lanes[lane]->c[r], at);
                for (int k = 0; k < K; ++k) sum += a[row][k] * b[col][k];
                const uint64_t encoded = C::encoded(sum, lanes[lane]->clamps) << (C::BITS % 64 * at);
                lanes[lane]->sums[r] = at ? lanes[lane]->sums[r] | encoded : encoded;
            }
        }
    }
};

template <int ROWS, int K, class A, class B, class C>
PEAKGATE_PTX_CALL void mma(uint64_t* sums, const uint64_t* a, const uint64_t* b, const uint64_t* c, bool clamps = false) {
    typename Product<ROWS, K, A, B, C>::Lane lane = {a, b, c, sums, clamps};
    meet(&lane, Product<ROWS, K, A, B, C>::together, __builtin_return_address(0));
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
