// PTX's mma, ldmatrix, stmatrix and movmatrix. All 32 lanes meet, the last one to arrive computes for all, and each
// continues with its fragment.
#pragma once

// The emulator's own arithmetic, which is not instrumented.
#define PEAKGATE_UNWATCHED __attribute__((no_sanitize("thread", "bounds", "alignment")))

namespace peakgate_ptx {

constexpr int LANES = 32;

// The lanes meet; `together` is called once with the operands of all of them.
PEAKGATE_UNWATCHED inline void meet(void* brought, void (*together)(void* const*), const void* caller) {
    const PeakgateWarpCall call = {PEAKGATE_WARP_TOGETHER, ~0u, &brought, nullptr, sizeof brought, 0, warpSize, together};
    peakgate_warp(&call, caller);
}

template <int COUNT> struct Sums {
    uint64_t of[COUNT];
};

// Registers of A, then of B, then COUNT of the sums: passed as values, since accesses to an array would be
// instrumented.
template <int COUNT, class... R>
__attribute__((noinline)) PEAKGATE_UNWATCHED Sums<COUNT> mma(const PeakgateWarpProduct* product, R... registers) {
    uint64_t given[] = {registers...};
    PeakgateFragments lane = {product, given, __builtin_return_address(0)};
    meet(&lane, peakgate_multiply, __builtin_return_address(0));
    Sums<COUNT> sums;
    for (int i = 0; i < COUNT; ++i) sums.of[i] = given[static_cast<int>(sizeof...(R)) - COUNT + i];
    return sums;
}

// COUNT matrices of 8 x 8 elements of 16 bits. Lanes 8 m to 8 m + 7 give the addresses of the rows of matrix m, 16
// bytes each. A lane's fragment has two neighbouring elements of row lane / 4, or of column lane / 4 if transposed.
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
                const int row = lane % 4 * 2 + i, col = lane / 4; // of the transposed matrix
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
