"""fp8: float to E4M3 and E5M2, saturating, and back."""

import numpy as np

from peakgate.family import In, Out, Value, kernel


def numbers(mantissa, largest):
    """The finite numbers of a format that are not negative, in the order of their bits."""
    bits = np.arange(largest + 1)
    exponent, fraction = bits >> mantissa, bits & ((1 << mantissa) - 1)
    bias = 7 if mantissa == 3 else 15
    normal = np.ldexp(fraction + float(1 << mantissa), exponent - bias - mantissa)
    return np.where(exponent > 0, normal, np.ldexp(fraction.astype(float), 1 - bias - mantissa))


def nearest(values, table):
    """Bits of the nearest number of a table, the even one of two; saturating."""
    magnitude = np.abs(values.astype(np.float64))
    above = np.minimum(np.searchsorted(table, magnitude), len(table) - 1)
    below = np.maximum(above - 1, 0)
    up, down = table[above] - magnitude, magnitude - table[below]
    chosen = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    return (chosen | (np.signbit(values).astype(int) << 7)).astype(np.uint8)


def reference(xp, given):
    values = np.asarray(given.get() if hasattr(given, "get") else given)
    places = np.arange(values.size)
    one = np.float32(1)
    values = values * np.where(places % 7, one, np.float32(600)) * np.where(places % 5, one, np.float32(0.004))
    e4m3, e5m2 = numbers(3, 0x7E), numbers(2, 0x7B)
    bits = nearest(values, e4m3)
    widened = np.where(bits >> 7, -one, one) * e4m3[bits & 127].astype(np.float32)
    return tuple(xp.asarray(part) for part in (bits, nearest(values, e5m2), widened))


FAMILY = kernel(
    "narrow.cu",
    arguments=lambda n: [Out(n, dtype="uint8"), Out(n, dtype="uint8"), Out(n), In(n), Value(n)],
    grid=lambda n: -(-n // 128),
    block=128,
    bytes=lambda n: 10 * n,
    reference=reference,
    sizes=[1 << 20],
)
