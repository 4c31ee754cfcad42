// Intrinsics: arithmetic and conversions in each rounding, and operations on bits. Included by cuda_math.h.
#pragma once

// ---- rounding ----
extern "C" int fesetround(int) noexcept;
namespace peakgate {
enum Rounding { TO_NEAREST, TO_ZERO, DOWN, UP };
// Sets the processor's rounding mode during its lifetime. Operands and results must be volatile, or the compiler could
// move the computation out of it.
struct Rounded {
#ifdef __aarch64__
    explicit Rounded(Rounding mode) { fesetround(mode == UP ? 0x400000 : mode == DOWN ? 0x800000 : mode ? 0xc00000 : 0); }
#else
    explicit Rounded(Rounding mode) { fesetround(mode == UP ? 0x800 : mode == DOWN ? 0x400 : mode ? 0xc00 : 0); }
#endif
    ~Rounded() { fesetround(0); }
};

template <class T> constexpr bool is_signed = T(-1) < T(0);
template <class T> constexpr T largest = is_signed<T> ? static_cast<T>(~(1ull << (8 * sizeof(T) - 1))) : static_cast<T>(~0ull);
template <class T> constexpr T smallest = is_signed<T> ? static_cast<T>(1ull << (8 * sizeof(T) - 1)) : T(0);

// An integer converted to another type, clamped to its range.
template <class T, class U> inline T clamped(U a) {
    const __int128 wide = a;
    return wide < smallest<T> ? smallest<T> : wide > largest<T> ? largest<T> : static_cast<T>(wide);
}
// The same for a floating-point number without a fraction. NaN becomes 0, or the highest bit alone if either type has 8
// bytes.
template <class T, class U> inline T to_integer(U a) {
    if (a != a) return sizeof(U) == 8 || sizeof(T) == 8 ? static_cast<T>(1ull << (8 * sizeof(T) - 1)) : T(0);
    const double wide = static_cast<double>(a), limit = ldexp(1.0, 8 * static_cast<int>(sizeof(T)) - is_signed<T>);
    if (wide >= limit) return largest<T>;
    return wide < (is_signed<T> ? -limit : 0.0) ? smallest<T> : static_cast<T>(wide);
}
} // namespace peakgate

// ---- intrinsics; the fast ones are as accurate as the others here ----
// Macros, because the C library has internal functions by some of these names.
#define __expf(x) expf(x)
#define __exp10f(x) powf(10.0f, x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
#define __sincosf(x, s, c) sincosf(x, s, c)

inline float __frsqrt_rn(float a) { return static_cast<float>(1 / sqrt(static_cast<double>(a))); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __tanhf(float a) { return tanhf(a); }

inline float __saturatef(float a) { return fminf(fmaxf(a, 0.0f), 1.0f); }

inline int __float_as_int(float a) { return __builtin_bit_cast(int, a); }
inline unsigned __float_as_uint(float a) { return __builtin_bit_cast(unsigned, a); }
inline float __int_as_float(int a) { return __builtin_bit_cast(float, a); }
inline float __uint_as_float(unsigned a) { return __builtin_bit_cast(float, a); }
inline long long __double_as_longlong(double a) { return __builtin_bit_cast(long long, a); }
inline double __longlong_as_double(long long a) { return __builtin_bit_cast(double, a); }


inline int __double2hiint(double a) { return static_cast<int>(__double_as_longlong(a) >> 32); }
inline int __double2loint(double a) { return static_cast<int>(__double_as_longlong(a)); }
inline double __hiloint2double(int high, int low) {
    return __longlong_as_double(static_cast<long long>(high) << 32 | static_cast<unsigned>(low));
}

// Not the compilers' builtins, which g++ replaces by library calls if the processor may lack the instruction.
inline int __popc(unsigned a) {
    a -= a >> 1 & 0x55555555u;
    a = (a & 0x33333333u) + (a >> 2 & 0x33333333u);
    return static_cast<int>(((a + (a >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
}
inline int __popcll(unsigned long long a) {
    return __popc(static_cast<unsigned>(a)) + __popc(static_cast<unsigned>(a >> 32));
}
inline int __clz(int a) { return a ? __builtin_clz(static_cast<unsigned>(a)) : 32; }
inline int __clzll(long long a) { return a ? __builtin_clzll(static_cast<unsigned long long>(a)) : 64; }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline int __ffsll(long long a) { return __builtin_ffsll(a); }
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }  // of the low 24 bits
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}
// Selects four of eight bytes; if a selector's highest bit is set, the byte's sign is replicated instead.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selectors) {
    const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
    unsigned result = 0;
    for (int at = 0; at < 4; ++at) {
        const unsigned selector = selectors >> 4 * at & 15;
        const unsigned byte = static_cast<unsigned>(bytes >> 8 * (selector & 7)) & 255;
        result |= (selector & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * at;
    }
    return result;
}
inline unsigned short __nv_bswap16(unsigned short a) { return __builtin_bswap16(a); }
inline unsigned __nv_bswap32(unsigned a) { return __builtin_bswap32(a); }
inline unsigned long long __nv_bswap64(unsigned long long a) { return __builtin_bswap64(a); }
inline int __dp4a(int a, int b, int sum) {
    for (int at = 0; at < 32; at += 8) sum += static_cast<signed char>(a >> at) * static_cast<signed char>(b >> at);
    return sum;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
    for (int at = 0; at < 32; at += 8) sum += (a >> at & 255) * (b >> at & 255);
    return sum;
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline long long __mul64hi(long long a, long long b) { return static_cast<long long>(static_cast<__int128>(a) * b >> 64); }
inline int __hadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b) >> 1); }
inline int __rhadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b + 1) >> 1); }
inline unsigned __uhadd(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<unsigned long long>(a) + b) >> 1); }
inline unsigned __urhadd(unsigned a, unsigned b) {
    return static_cast<unsigned>((static_cast<unsigned long long>(a) + b + 1) >> 1);
}
inline unsigned __sad(int a, int b, unsigned sum) {
    return sum + (a < b ? static_cast<unsigned>(b) - static_cast<unsigned>(a) : static_cast<unsigned>(a) - static_cast<unsigned>(b));
}
inline unsigned __usad(unsigned a, unsigned b, unsigned sum) { return sum + (a < b ? b - a : a - b); }
// The n-th set bit from `base` upwards, or downwards if n is negative; all ones if there is none.
inline unsigned __fns(unsigned mask, unsigned base, int n) {
    if (n == 0) return mask >> (base & 31) & 1 ? base : ~0u;
    for (int at = static_cast<int>(base), step = n > 0 ? 1 : -1; at >= 0 && at < 32; at += step)
        if (mask >> at & 1 && (n -= step) == 0) return static_cast<unsigned>(at);
    return ~0u;
}
template <class A, class B> inline auto peakgate_dp2a(A a, B b, int from) {
    const int low = static_cast<signed char>(b >> from), high = static_cast<signed char>(b >> (from + 8));
    return static_cast<int>(static_cast<short>(a)) * low + static_cast<int>(static_cast<short>(a >> 16)) * high;
}
inline int __dp2a_lo(int a, int b, int sum) { return sum + peakgate_dp2a(a, b, 0); }
inline int __dp2a_hi(int a, int b, int sum) { return sum + peakgate_dp2a(a, b, 16); }
inline unsigned __dp2a_lo(unsigned a, unsigned b, unsigned sum) {
    return sum + (a & 0xffff) * (b & 255) + (a >> 16) * (b >> 8 & 255);
}
inline unsigned __dp2a_hi(unsigned a, unsigned b, unsigned sum) { return __dp2a_lo(a, b >> 16, sum); }
inline unsigned __brev(unsigned a) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (a >> bit & 1u) << (31 - bit);
    return reversed;
}
inline unsigned long long __brevll(unsigned long long a) {
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(a))) << 32 | __brev(static_cast<unsigned>(a >> 32));
}
