// What PyTorch's headers bring to device code: its number types, the types in which they are summed, and macros. The
// types of a sum are those of ATen/AccumulateType.h and ATen/OpMathType.h, the operators those of c10/util/Half-inl.h,
// the views of tensors those of ATen/core/TensorAccessor.h and ATen/cuda/detail/TensorInfo.cuh.
#if __has_include(<cuda_bf16.h>)
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace c10 {
namespace peakgate_detail {
// In place of <type_traits>, which takes NVRTC two seconds.
template <bool, class T> struct EnableIf {};
template <class T> struct EnableIf<true, T> { using type = T; };
template <bool, class T, class F> struct Conditional { using type = T; };
template <class T, class F> struct Conditional<false, T, F> { using type = F; };
template <class T> constexpr bool is_integral = false;
#define PEAKGATE_INTEGRAL(type)                                                                                        \
    template <> constexpr bool is_integral<type> = true;                                                               \
    template <> constexpr bool is_integral<unsigned type> = true;
PEAKGATE_INTEGRAL(char)
PEAKGATE_INTEGRAL(short)
PEAKGATE_INTEGRAL(int)
PEAKGATE_INTEGRAL(long)
PEAKGATE_INTEGRAL(long long)
#undef PEAKGATE_INTEGRAL
template <> constexpr bool is_integral<bool> = true;
template <> constexpr bool is_integral<signed char> = true;

// A number of 16 bits that is computed in float and rounded to nearest even.
template <class Native> struct Narrow {
    unsigned short x;
    Narrow() = default;
    __device__ Narrow(float value) : Narrow(static_cast<Native>(value)) {}
    __device__ Narrow(Native value) : x(*reinterpret_cast<const unsigned short*>(&value)) {}
    __device__ operator float() const { return static_cast<float>(static_cast<Native>(*this)); }
    __device__ operator Native() const { return *reinterpret_cast<const Native*>(&x); }
    __device__ Narrow operator-() const { return -static_cast<float>(*this); }
};
#define PEAKGATE_NARROW(op)                                                                                            \
    template <class N> __device__ Narrow<N> operator op(Narrow<N> a, Narrow<N> b) {                                    \
        return static_cast<float>(a) op static_cast<float>(b);                                                         \
    }                                                                                                                  \
    template <class N, class I, typename EnableIf<is_integral<I>, int>::type = 0>                                      \
    __device__ Narrow<N> operator op(Narrow<N> a, I b) {                                                               \
        return a op Narrow<N>(static_cast<float>(b));                                                                  \
    }                                                                                                                  \
    template <class N, class I, typename EnableIf<is_integral<I>, int>::type = 0>                                      \
    __device__ Narrow<N> operator op(I a, Narrow<N> b) {                                                               \
        return Narrow<N>(static_cast<float>(a)) op b;                                                                  \
    }                                                                                                                  \
    template <class N, class T> __device__ Narrow<N>& operator op##=(Narrow<N>& a, T b) {                              \
        return a = Narrow<N>(static_cast<float>(a op b));                                                              \
    }
PEAKGATE_NARROW(+)
PEAKGATE_NARROW(-)
PEAKGATE_NARROW(*)
PEAKGATE_NARROW(/)
#undef PEAKGATE_NARROW
#define PEAKGATE_NARROW(op)                                                                                            \
    template <class N> __device__ bool operator op(Narrow<N> a, Narrow<N> b) {                                         \
        return static_cast<float>(a) op static_cast<float>(b);                                                         \
    }
PEAKGATE_NARROW(==)
PEAKGATE_NARROW(!=)
PEAKGATE_NARROW(<)
PEAKGATE_NARROW(<=)
PEAKGATE_NARROW(>)
PEAKGATE_NARROW(>=)
#undef PEAKGATE_NARROW

template <class T, bool on_gpu> struct Sum { using type = typename Conditional<is_integral<T>, int64_t, T>::type; };
template <bool on_gpu> struct Sum<bool, on_gpu> { using type = bool; };
template <> struct Sum<float, false> { using type = double; };
template <class N, bool on_gpu> struct Sum<Narrow<N>, on_gpu> { using type = float; };
template <class T> struct Computed { using type = T; };
template <class N> struct Computed<Narrow<N>> { using type = float; };
} // namespace peakgate_detail

using Half = peakgate_detail::Narrow<__half>;
using BFloat16 = peakgate_detail::Narrow<__nv_bfloat16>;
// A complex number, as in c10/util/complex.h; its parts are side by side.
template <class T> struct alignas(2 * sizeof(T)) complex {
    using value_type = T;
    T real_ = T(0), imag_ = T(0);
    constexpr complex() = default;
    __host__ __device__ constexpr complex(const T& real, const T& imag = T()) : real_(real), imag_(imag) {}
    template <class U>
    __host__ __device__ explicit constexpr complex(const complex<U>& other)
        : real_(static_cast<T>(other.real_)), imag_(static_cast<T>(other.imag_)) {}
    __host__ __device__ constexpr T real() const { return real_; }
    __host__ __device__ constexpr T imag() const { return imag_; }
    __host__ __device__ constexpr void real(T value) { real_ = value; }
    __host__ __device__ constexpr void imag(T value) { imag_ = value; }
    __host__ __device__ constexpr complex& operator+=(const complex& b) { return *this = *this + b; }
    __host__ __device__ constexpr complex& operator-=(const complex& b) { return *this = *this - b; }
    __host__ __device__ constexpr complex& operator*=(const complex& b) { return *this = *this * b; }
    __host__ __device__ constexpr complex& operator/=(const complex& b) { return *this = *this / b; }
    __host__ __device__ constexpr complex operator-() const { return complex(-real_, -imag_); }
    friend __host__ __device__ constexpr complex operator+(const complex& a, const complex& b) {
        return complex(a.real_ + b.real_, a.imag_ + b.imag_);
    }
    friend __host__ __device__ constexpr complex operator-(const complex& a, const complex& b) {
        return complex(a.real_ - b.real_, a.imag_ - b.imag_);
    }
    friend __host__ __device__ constexpr complex operator*(const complex& a, const complex& b) {
        return complex(a.real_ * b.real_ - a.imag_ * b.imag_, a.real_ * b.imag_ + a.imag_ * b.real_);
    }
    friend __host__ __device__ constexpr complex operator/(const complex& a, const complex& b) {
        const T norm = b.real_ * b.real_ + b.imag_ * b.imag_;
        return complex((a.real_ * b.real_ + a.imag_ * b.imag_) / norm, (a.imag_ * b.real_ - a.real_ * b.imag_) / norm);
    }
    friend __host__ __device__ constexpr bool operator==(const complex& a, const complex& b) {
        return a.real_ == b.real_ && a.imag_ == b.imag_;
    }
    friend __host__ __device__ constexpr bool operator!=(const complex& a, const complex& b) { return !(a == b); }
};
} // namespace c10

namespace at {
using c10::BFloat16;
using c10::Half;
template <class T, bool on_gpu> using acc_type = typename c10::peakgate_detail::Sum<T, on_gpu>::type;
template <class T> using opmath_type = typename c10::peakgate_detail::Computed<T>::type;

template <class T> __host__ __device__ constexpr T ceil_div(T a, T b) { return (a + b - 1) / b; }

template <class T> struct DefaultPtrTraits { using PtrType = T*; };
template <class T> struct RestrictPtrTraits { using PtrType = T* __restrict__; };

// A part of a tensor: its data, and the extents and strides of its axes, which the kernel's argument has.
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class Index = int64_t>
class TensorAccessor {
public:
    using PtrType = typename PtrTraits<T>::PtrType;
    __host__ __device__ TensorAccessor(PtrType data, const Index* sizes, const Index* strides)
        : data_(data), sizes_(sizes), strides_(strides) {}
    __host__ __device__ decltype(auto) operator[](Index at) const {
        if constexpr (N == 1) {
            return (data_[strides_[0] * at]);
        } else {
            return TensorAccessor<T, N - 1, PtrTraits, Index>(data_ + strides_[0] * at, sizes_ + 1, strides_ + 1);
        }
    }
    __host__ __device__ Index size(Index axis) const { return sizes_[axis]; }
    __host__ __device__ Index stride(Index axis) const { return strides_[axis]; }
    __host__ __device__ PtrType data() const { return data_; }

private:
    PtrType data_;
    const Index* sizes_;
    const Index* strides_;
};

// A tensor as the argument of a kernel.
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class Index = int64_t>
struct GenericPackedTensorAccessor {
    using PtrType = typename PtrTraits<T>::PtrType;
    PtrType data_;
    Index sizes_[N];
    Index strides_[N];

    __host__ __device__ decltype(auto) operator[](Index at) const {
        return TensorAccessor<T, N, PtrTraits, Index>(data_, sizes_, strides_)[at];
    }
    __host__ __device__ Index size(Index axis) const { return sizes_[axis]; }
    __host__ __device__ Index stride(Index axis) const { return strides_[axis]; }
    __host__ __device__ PtrType data() const { return data_; }
};
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, PtrTraits, int32_t>;
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, PtrTraits, int64_t>;
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class Index = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, PtrTraits, Index>;

namespace cuda {
template <class T> __host__ __device__ constexpr T ATenCeilDiv(T a, T b) { return ceil_div(a, b); }
namespace detail {
// A tensor of up to 25 axes as the argument of a kernel, and where an element is by its number in row-major order.
template <class T, class Index> struct TensorInfo {
    T* data;
    Index sizes[25];
    Index strides[25];
    int dims;
    __host__ __device__ bool isContiguous() const { return dims == 1 && strides[0] == 1; }
};
template <class T, class Index, int dims> struct IndexToOffset {
    static __host__ __device__ Index get(Index number, const TensorInfo<T, Index>& of) {
        Index offset = 0;
        for (int axis = (dims < 0 ? of.dims : dims) - 1; axis > 0; axis--) {
            offset += number % of.sizes[axis] * of.strides[axis];
            number /= of.sizes[axis];
        }
        return offset + number * of.strides[0];
    }
};
} // namespace detail
} // namespace cuda
} // namespace at
namespace torch {
using at::DefaultPtrTraits;
using at::GenericPackedTensorAccessor;
using at::PackedTensorAccessor;
using at::PackedTensorAccessor32;
using at::PackedTensorAccessor64;
using at::RestrictPtrTraits;
using at::TensorAccessor;
using c10::BFloat16;
using c10::Half;
namespace headeronly {
using c10::BFloat16;
using c10::Half;
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class Index = int64_t>
using HeaderOnlyTensorAccessor = TensorAccessor<T, N, PtrTraits, Index>;
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class Index = int64_t>
using HeaderOnlyGenericPackedTensorAccessor = GenericPackedTensorAccessor<T, N, PtrTraits, Index>;
} // namespace headeronly
} // namespace torch
#endif

#define C10_HOST __host__
#define C10_DEVICE __device__
#define C10_HOST_DEVICE __host__ __device__
#define C10_RESTRICT __restrict__
#define C10_ALWAYS_INLINE inline
#define C10_LIKELY(condition) (condition)
#define C10_UNLIKELY(condition) (condition)
#define C10_WARP_SIZE 32
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#define CUDA_KERNEL_ASSERT(condition) assert(condition)
#define CUDA_KERNEL_LOOP_TYPE(i, n, type)                                                                              \
    for (type i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < (n);                                \
         i += static_cast<int64_t>(blockDim.x) * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#define WARP_SHFL(value, ...) __shfl_sync(0xffffffff, value, __VA_ARGS__)
#define WARP_SHFL_XOR(value, ...) __shfl_xor_sync(0xffffffff, value, __VA_ARGS__)
#define WARP_SHFL_UP(value, ...) __shfl_up_sync(0xffffffff, value, __VA_ARGS__)
#define WARP_SHFL_DOWN(value, ...) __shfl_down_sync(0xffffffff, value, __VA_ARGS__)
#define WARP_BALLOT(predicate) __ballot_sync(0xffffffff, predicate)
#define gpuAtomicAdd(...) atomicAdd(__VA_ARGS__)
#define gpuAtomicAddNoReturn(...) ((void)atomicAdd(__VA_ARGS__))
