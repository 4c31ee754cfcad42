// nvcuda::wmma, CUDA C++'s own interface to the tensor cores. Included in place of mma.h.
//
// CUDA does not define which elements of a matrix a lane holds. Here each 32 consecutive ones, in row order, are
// distributed with another rotation, so that a loop over them finds elements of other lanes. Loads and stores do not
// order the lanes.
#pragma once

#include "cuda_half.h"
#include "cuda_matrix.h"

namespace nvcuda {
namespace wmma {

enum layout_t { mem_row_major, mem_col_major };
struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
namespace precision {
struct tf32;
}

namespace details {

template <class Type> struct Element {
    using type = Type;
    static double value(Type element) { return static_cast<double>(static_cast<float>(element)); }
};
template <> struct Element<double> {
    using type = double;
    static double value(double element) { return element; }
};
template <> struct Element<int> {
    using type = int;
    static double value(int element) { return element; }
};
template <> struct Element<precision::tf32> {
    using type = float;
    static double value(float element) { return peakgate_ptx::get<float>(peakgate_ptx::bits(element) & 0xffffe000u); }
};

template <class Use, int m_, int n_, int k_> struct Shape;
template <int m_, int n_, int k_> struct Shape<matrix_a, m_, n_, k_> {
    static constexpr int rows_ = m_, cols_ = k_;
};
template <int m_, int n_, int k_> struct Shape<matrix_b, m_, n_, k_> {
    static constexpr int rows_ = k_, cols_ = n_;
};
template <int m_, int n_, int k_> struct Shape<accumulator, m_, n_, k_> {
    static constexpr int rows_ = m_, cols_ = n_;
};

inline int lane() { return static_cast<int>(peakgate_ptx::rank() % 32); }

} // namespace details

template <class Use, int m_, int n_, int k_, class Type, class Layout = void> struct fragment : details::Shape<Use, m_, n_, k_> {
    using element_type = typename details::Element<Type>::type;
    using storage_element_type = element_type;
    using details::Shape<Use, m_, n_, k_>::rows_;
    using details::Shape<Use, m_, n_, k_>::cols_;
    static constexpr int num_elements = rows_ * cols_ / 32, num_storage_elements = num_elements;
    element_type x[num_elements];
};

template <class Use, int m_, int n_, int k_, class Type, class Layout, class Value>
inline void fill_fragment(fragment<Use, m_, n_, k_, Type, Layout>& to, const Value& value) {
    for (auto& element : to.x) element = static_cast<typename fragment<Use, m_, n_, k_, Type, Layout>::element_type>(value);
}

namespace details {

// Position in row order of element `i` of a lane's fragment.
inline int position(int i, int lane) { return i * 32 + (lane + 5 * i + 3) % 32; }

// Its offset in memory.
template <class Fragment> inline size_t place(int i, unsigned leading, bool by_columns) {
    const int at = position(i, lane());
    const auto row = static_cast<size_t>(at / Fragment::cols_), col = static_cast<size_t>(at % Fragment::cols_);
    return by_columns ? col * leading + row : row * leading + col;
}

template <class Type> inline void require_aligned(const Type* pointer, unsigned leading, const void* caller) {
    peakgate_row(pointer, 16, -1, caller);
    peakgate_row(pointer + leading, 16, -1, caller);
}

template <class Fragment, class Type>
__attribute__((no_sanitize("thread"))) inline void load(Fragment& to, const Type* from, unsigned leading, bool by_columns, const void* caller) {
    require_aligned(from, leading, caller);
    for (int i = 0; i < Fragment::num_elements; ++i) {
        const Type* const element = from + place<Fragment>(i, leading, by_columns);
        peakgate_access(element, sizeof(Type), 0, caller);
        to.x[i] = *element;
    }
}

template <class Left, class Right, class Sums> struct Multiplied {
    const Left* a;
    const Right* b;
    const Sums* c;
    Sums* d;
};

template <class of_a, class of_b, class Left, class Right, class Sums>
__attribute__((no_sanitize("thread"))) inline void together(void* const* all) {
    auto* const* lanes = reinterpret_cast<Multiplied<Left, Right, Sums>* const*>(all);
    double a[Left::rows_ * Left::cols_], b[Right::rows_ * Right::cols_];
    for (int n = 0; n < 32; ++n) {
        for (int i = 0; i < Left::num_elements; ++i) a[position(i, n)] = Element<of_a>::value(lanes[n]->a->x[i]);
        for (int i = 0; i < Right::num_elements; ++i) b[position(i, n)] = Element<of_b>::value(lanes[n]->b->x[i]);
    }
    using Sum = typename Sums::element_type;
    for (int n = 0; n < 32; ++n) {
        for (int i = 0; i < Sums::num_elements; ++i) {
            const int at = position(i, n), row = at / Sums::cols_, col = at % Sums::cols_;
            double sum = Element<Sum>::value(lanes[n]->c->x[i]);
            for (int k = 0; k < Left::cols_; ++k) sum += a[row * Left::cols_ + k] * b[k * Right::cols_ + col];
            lanes[n]->d->x[i] = static_cast<Sum>(sum);
        }
    }
}

} // namespace details

template <class Use, int m_, int n_, int k_, class Type, class Layout>
PEAKGATE_PTX_CALL void load_matrix_sync(fragment<Use, m_, n_, k_, Type, Layout>& to,
                                        const typename details::Element<Type>::type* from, unsigned leading) {
    details::load(to, from, leading, __is_same(Layout, col_major), __builtin_return_address(0));
}
template <int m_, int n_, int k_, class Type>
PEAKGATE_PTX_CALL void load_matrix_sync(fragment<accumulator, m_, n_, k_, Type>& to, const Type* from, unsigned leading, layout_t layout) {
    details::load(to, from, leading, layout == mem_col_major, __builtin_return_address(0));
}
template <int m_, int n_, int k_, class Type>
PEAKGATE_PTX_CALL void store_matrix_sync(Type* to, const fragment<accumulator, m_, n_, k_, Type>& from, unsigned leading, layout_t layout) {
    using Fragment = fragment<accumulator, m_, n_, k_, Type>;
    const void* const caller = __builtin_return_address(0);
    details::require_aligned(to, leading, caller);
    for (int i = 0; i < Fragment::num_elements; ++i) {
        Type* const element = to + details::place<Fragment>(i, leading, layout == mem_col_major);
        peakgate_access(element, sizeof(Type), 1, caller);
        *element = from.x[i];
    }
}

template <int m_, int n_, int k_, class of_a, class layout_a, class of_b, class layout_b, class of_d, class of_c>
PEAKGATE_PTX_CALL void mma_sync(fragment<accumulator, m_, n_, k_, of_d>& d, const fragment<matrix_a, m_, n_, k_, of_a, layout_a>& a,
                                const fragment<matrix_b, m_, n_, k_, of_b, layout_b>& b, const fragment<accumulator, m_, n_, k_, of_c>& c,
                                bool = false) {
    static_assert(__is_same(of_c, of_d), "sums of one type");
    using Left = fragment<matrix_a, m_, n_, k_, of_a, layout_a>;
    using Right = fragment<matrix_b, m_, n_, k_, of_b, layout_b>;
    using Sums = fragment<accumulator, m_, n_, k_, of_c>;
    details::Multiplied<Left, Right, Sums> lane = {&a, &b, &c, &d};
    peakgate_ptx::meet(&lane, details::together<of_a, of_b, Left, Right, Sums>, __builtin_return_address(0));
}

inline float __float_to_tf32(float value) {
    return peakgate_ptx::get<float>((peakgate_ptx::bits(value) + 0x1000u) & 0xffffe000u);
}

// Products of numbers of 4 bits and of one: declared, since CUTLASS names them, and not emulated.
namespace experimental {
namespace precision {
struct u4;
struct s4;
struct b1;
} // namespace precision
enum bmmaBitOp { bmmaBitOpXOR = 1, bmmaBitOpAND = 2 };
enum bmmaAccumulateOp { bmmaAccumulateOpPOPC = 1 };
} // namespace experimental
template <class D, class A, class B, class C>
void bmma_sync(D&, const A&, const B&, const C&, experimental::bmmaBitOp = experimental::bmmaBitOpXOR,
               experimental::bmmaAccumulateOp = experimental::bmmaAccumulateOpPOPC);
} // namespace wmma
} // namespace nvcuda
