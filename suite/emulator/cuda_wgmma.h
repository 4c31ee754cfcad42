// Products by a group of four warps (wgmma of PTX): each warp multiplies its 16 of 64 rows, once it waits for the product
// (tensor_cores.cpp, which also brings the rows of both matrices, 32 bytes along k each).
//
// Exact but for one rounding to nearest at the end of each product, as those of a warp (cuda_matrix.h).
#pragma once

#include "cuda_matrix.h"

namespace peakgate_ptx {

// 16 rows of A by COLS rows of B.
template <int COLS, class A, class B, class C> struct GroupProduct {
    static constexpr int K = 256 / A::BITS, PER_A = A::BITS < 32 ? 32 / A::BITS : 1;
    static constexpr int PER_C = C::BITS == 16 ? 2 : 1, REGISTERS = COLS / 2 / PER_C;

    template <class T> static double decoded(const unsigned char* row, int k) {
        uint64_t bits = 0;
        __builtin_memcpy(&bits, row + k * (T::BITS / 8), T::BITS / 8);
        return T::value(bits);
    }

    // So many columns at once: a thread's stack is small.
    static constexpr int AT_ONCE = COLS % 64 ? 8 : 64;

    PEAKGATE_UNWATCHED static void multiply(const PeakgateProduct* product, const unsigned char* rows_of_a,
                                                                const unsigned char* rows_of_b, uint32_t* sums, int adds) {
        double a[16][K], b[K][AT_ONCE], out[16][AT_ONCE];
        const double scale = product->scale_a * product->scale_b;
        for (int row = 0; row < 16; ++row)
            for (int k = 0; k < K; ++k) a[row][k] = scale * decoded<A>(rows_of_a + row * 32, k);
        for (int first = 0; first < COLS; first += AT_ONCE) {
            for (int col = 0; col < AT_ONCE; ++col)
                for (int k = 0; k < K; ++k) b[k][col] = decoded<B>(rows_of_b + (first + col) * 32, k);
            for (int lane = 0; lane < LANES; ++lane)
                for (int n = first / 2; n < (first + AT_ONCE) / 2; ++n)
                    out[lane / 4 + n % 4 / 2 * 8][place(lane, n) - first] =
                        adds ? element<C>(sums[lane * REGISTERS + n / PER_C], n % PER_C) : 0;
            peakgate_multiply(&a[0][0], &b[0][0], &out[0][0], K, AT_ONCE, 16);
            for (int lane = 0; lane < LANES; ++lane) {
                for (int n = first / 2; n < (first + AT_ONCE) / 2; ++n) {
                    const uint64_t encoded = C::encoded(out[lane / 4 + n % 4 / 2 * 8][place(lane, n) - first], product->clamps);
                    uint32_t& to = sums[lane * REGISTERS + n / PER_C];
                    to = static_cast<uint32_t>(n % PER_C ? to | encoded << 16 : encoded);
                }
            }
        }
    }
    // The column of a lane's sum.
    static int place(int lane, int n) { return n / 4 * 8 + lane % 4 * 2 + n % 2; }
};

template <int COLS, class A, class B, class C>
PEAKGATE_PTX_CALL void multiply_group(void* const* sums, const uint32_t* registers_of_a, uint64_t a, uint64_t b, bool adds,
                                      int scale_a, int scale_b, int transposes_a, int transposes_b, bool clamps) {
    using Of = GroupProduct<COLS, A, B, C>;
    const PeakgateProduct product = {Of::multiply, sums, registers_of_a, a, b, COLS, Of::REGISTERS, adds, scale_a, scale_b,
                                     transposes_a, transposes_b, clamps};
    peakgate_wgmma(&product, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void group_fence() { peakgate_wgmma_fence(__builtin_return_address(0)); }
PEAKGATE_PTX_CALL inline void group_commit() { peakgate_wgmma_commit(__builtin_return_address(0)); }
PEAKGATE_PTX_CALL inline void group_wait(int left) { peakgate_wgmma_wait(left, __builtin_return_address(0)); }

} // namespace peakgate_ptx
