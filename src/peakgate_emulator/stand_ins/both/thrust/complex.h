// Thrust's complex numbers: arithmetic and the functions that are not of a whole library.
namespace thrust {
template <class T> struct alignas(2 * sizeof(T)) complex {
    using value_type = T;
    constexpr complex(const T& re = T(), const T& im = T()) : x(re), y(im) {}
    template <class U> constexpr complex(const complex<U>& other) : x(T(other.real())), y(T(other.imag())) {}
    constexpr T real() const { return x; }
    constexpr T imag() const { return y; }
    void real(T re) { x = re; }
    void imag(T im) { y = im; }
    complex& operator+=(const complex& b) { return *this = *this + b; }
    complex& operator-=(const complex& b) { return *this = *this - b; }
    complex& operator*=(const complex& b) { return *this = *this * b; }
    complex& operator/=(const complex& b) { return *this = *this / b; }
    friend constexpr complex operator+(const complex& a) { return a; }
    friend constexpr complex operator-(const complex& a) { return {-a.x, -a.y}; }
    friend constexpr complex operator+(const complex& a, const complex& b) { return {a.x + b.x, a.y + b.y}; }
    friend constexpr complex operator-(const complex& a, const complex& b) { return {a.x - b.x, a.y - b.y}; }
    friend constexpr complex operator*(const complex& a, const complex& b) {
        return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
    }
    friend complex operator/(const complex& a, const complex& b) {  // scaled, so that no square overflows
        const T scale = T(1) / (fabs(b.x) + fabs(b.y));
        const T ax = a.x * scale, ay = a.y * scale, bx = b.x * scale, by = b.y * scale, of = T(1) / (bx * bx + by * by);
        return {(ax * bx + ay * by) * of, (ay * bx - ax * by) * of};
    }
    friend constexpr bool operator==(const complex& a, const complex& b) { return a.x == b.x && a.y == b.y; }
    friend constexpr bool operator!=(const complex& a, const complex& b) { return !(a == b); }

private:
    T x, y;
};
template <class T> constexpr complex<T> conj(const complex<T>& a) { return {a.real(), -a.imag()}; }
template <class T> constexpr T norm(const complex<T>& a) { return a.real() * a.real() + a.imag() * a.imag(); }
template <class T> T abs(const complex<T>& a) { return hypot(a.real(), a.imag()); }
template <class T> T arg(const complex<T>& a) { return atan2(a.imag(), a.real()); }
template <class T> complex<T> polar(const T& radius, const T& angle = T()) {
    return {radius * cos(angle), radius * sin(angle)};
}
template <class T> complex<T> exp(const complex<T>& a) { return polar(T(::exp(a.real())), a.imag()); }
template <class T> complex<T> log(const complex<T>& a) { return {T(::log(abs(a))), arg(a)}; }
template <class T> complex<T> pow(const complex<T>& a, const complex<T>& b) { return exp(log(a) * b); }
template <class T> complex<T> pow(const complex<T>& a, const T& b) { return exp(log(a) * complex<T>(b)); }
template <class T> complex<T> sqrt(const complex<T>& a) { return polar(T(::sqrt(abs(a))), arg(a) / 2); }
}
