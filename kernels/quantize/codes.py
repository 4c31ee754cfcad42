"""What the stages of quantize compute: codes and scales, in the float32 operations of the kernels.

The largest magnitude of a group becomes the largest number of the codes' type: 448 in e4m3, 127 in int8. The
microscaling formats have scales of 8 bits (``FORMATS``). Every operation is a product or a quotient of float32, rounded
once, so that codes and scales are equal to the reference's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from peakgate.family import Array

SMALLEST = 1e-30
"""Lower bound for the largest magnitude of a group."""
LEAST_POWER = -127
"""Exponent of the least scale that is a power of two."""


def nearest_float(xp: Any, values: Array, *, bits: int, least: int, largest: float) -> Array:
    """Rounded to the nearest number with ``bits`` after the leading one, fewer below 2^least; at most ``largest``."""
    held = xp.clip(values, -largest, largest)
    _, exponents = xp.frexp(held)
    steps = xp.ldexp(xp.ones_like(held), xp.maximum(exponents - 1, least) - bits)
    return xp.rint(held / steps) * steps


def nearest_e4m3(xp: Any, values: Array) -> Array:
    """Rounded to the nearest e4m3."""
    return nearest_float(xp, values, bits=3, least=-6, largest=448)


def nearest_e2m1(xp: Any, values: Array) -> Array:
    """Rounded to the nearest e2m1; that type has no NaN, which becomes 0."""
    return nearest_float(xp, xp.where(xp.isnan(values), 0, values), bits=1, least=0, largest=6)


def nearest_int8(xp: Any, values: Array) -> Array:
    """Rounded to the nearest integer, halves to even."""
    return xp.rint(values).astype("int8")


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of codes: label, Peakgate's name, the kernels' name, its largest number, and how values are rounded."""

    label: str
    dtype: str
    name: str
    largest: float
    nearest: Callable[..., Array]


KINDS = {
    "fp8": Kind("fp8", "float8_e4m3fn", "E4m3", 448.0, nearest_e4m3),
    "int8": Kind("int8", "int8", "Int8", 127.0, nearest_int8),
}
FP4 = Kind("fp4", "float4_e2m1fn", "E2m1", 6.0, nearest_e2m1)
"""Packed two in a byte, and only in microscaling formats."""


def groups_of(n: int, group: int) -> int:
    """Scales of a row; with a group of 0 elements the group is the row."""
    return ceil(n / group) if group else 1


def in_groups(xp: Any, values: Array, group: int) -> Array:
    """Rows, groups and their elements, with zeros after the end of a row."""
    rows, n = values.shape
    groups, length = groups_of(n, group), group or n
    padded = xp.zeros((rows, groups * length), dtype="float32")
    padded[:, :n] = values
    return padded.reshape(rows, groups, length)


def quantized(xp: Any, values: Array, *, kind: Kind, group: int) -> tuple[Array, Array]:
    """Codes and scales, in the float32 operations of the kernels."""
    rows, n = values.shape
    dealt = in_groups(xp, values, group)
    largest = xp.maximum(xp.abs(dealt).max(axis=2), xp.float32(SMALLEST))
    inverse = xp.float32(kind.largest) / largest
    codes = kind.nearest(xp, dealt * inverse[:, :, None]).reshape(rows, -1)[:, :n]
    return codes, largest / xp.float32(kind.largest)


def restored(xp: Any, codes: Array, scales: Array, *, group: int) -> Array:
    """Each code times its group's scale."""
    n = codes.shape[1]
    return codes * xp.repeat(scales, group or n, axis=1)[:, :n]


def powers_of_two(xp: Any, largest: Array, _factor: Array, *, exponent: int) -> tuple[Array, Array]:
    """Scales and inverses of OCP's formats: a group's largest power of two over that of the codes, 2^``exponent``.

    The least scale is 2^-127. A group with infinity or NaN has a scale of NaN.
    """
    _, exponents = xp.frexp(largest)
    powers = xp.maximum(xp.where(largest > 0, exponents - 1 - exponent, LEAST_POWER), LEAST_POWER)
    of_powers = 2.0 ** np.arange(LEAST_POWER, 1 - LEAST_POWER)  # on the host: CuPy flushes 2^-127 to zero
    scales = xp.take(xp.asarray(of_powers.astype("float32")), powers - LEAST_POWER)
    nan, finite = xp.float32("nan"), xp.isfinite(largest)
    return xp.where(finite, scales, nan), xp.where(finite, xp.ldexp(xp.ones_like(largest), -powers), nan)


def two_levels(xp: Any, largest: Array, factor: Array) -> tuple[Array, Array]:
    """Scales and inverses of NVIDIA's format: ``factor`` makes the matrix's largest magnitude that of codes and scales.

    The inverse of a scale of zero or NaN is the largest float32.
    """
    scales = nearest_e4m3(xp, largest / xp.float32(FP4.largest) * factor)
    return scales, xp.fmin(factor / scales, xp.float32(xp.finfo("float32").max))


@dataclass(frozen=True, slots=True)
class Format:
    """A microscaling format: the kernels' name, its codes, elements that share a scale, the scales' type and values."""

    name: str
    codes: Kind
    group: int
    scale: str
    scales: Callable[..., tuple[Array, Array]]

    @property
    def bits(self) -> int:
        """Of a code."""
        return 4 if self.codes is FP4 else 8


FACTORS = (1344, 5376)
"""For matrices whose largest magnitude, which is 6 * 448 over the factor, is a half to two."""
FORMATS = {
    "nvfp4": Format("Nvfp4", FP4, 16, "float8_e4m3fn", two_levels),
    "mxfp8": Format("Mxfp8", KINDS["fp8"], 32, "float8_e8m0fnu", partial(powers_of_two, exponent=8)),
    "mxfp4": Format("Mxfp4", FP4, 32, "float8_e8m0fnu", partial(powers_of_two, exponent=2)),
}
"""OCP's Microscaling Formats (MX) Specification 1.0, and NVFP4 as in NVIDIA's Transformer Engine."""


def micro_quantized(xp: Any, values: Array, factor: Array, *, form: Format) -> tuple[Array, Array]:
    """Codes and scales of a microscaling format."""
    rows, n = values.shape
    dealt = in_groups(xp, values, form.group)
    scales, inverse = form.scales(xp, xp.abs(dealt).max(axis=2), factor)
    return form.codes.nearest(xp, dealt * inverse[:, :, None]).reshape(rows, -1)[:, :n], scales


def micro_restored(xp: Any, codes: Array, scales: Array, factor: Array, *, form: Format) -> Array:
    """Each code times its group's scale, over the matrix's factor."""
    return restored(xp, codes, scales / factor if form.scales is two_levels else scales, group=form.group)


def special_rows(xp: Any, shape: tuple[int, ...]) -> Array:
    """Rows of zeros, infinity, NaN, halves between codes and between scales, and exponents.

    Elements and, except for zeros, scales are not subnormal: CuPy's float32 operations would flush them to zero.
    """
    at = np.arange(shape[1])
    step, group = at % 16 - 8, at // 16  # -8 is the largest of each 16
    rows = [
        np.where(at % 2, 0.0, -0.0),
        (2 * step + 1) * 2.0**-117,
        np.where(at == 23, np.nan, -1.0),
        np.where(at == 23, np.inf, -1.0),
        step * 2.0**124,
        np.where(at % 16, step / 4, 6),
        np.where(at % 16, step / 2, 6),
        np.where(at % 16, 5, -6),
        (2 * step + 33) / 16,
        np.where(at % 32, step / 16, 7 + group / 4),
        (2 * group + 1) * 6 * 2.0**-10 * step / 8,
        (2 * group + 17) * 6 / 16 * step / 8,
        (2 * group + 1) * 6 * 64.0 * step / 8,
        2.0 ** (step + group),
        *(1.99 * 2.0**power * np.where(at % 3, 1, -1) for power in range(-114, 127, 8)),
    ]
    return xp.asarray(np.stack([rows[each % len(rows)] for each in range(shape[0])]))


def special_powers(xp: Any, shape: tuple[int, ...]) -> Array:
    """Powers of two from the least scale on that CuPy does not flush to zero."""
    return xp.asarray(np.resize(2.0 ** np.arange(-126.0, 100, 17), shape))


def special_scales(xp: Any, shape: tuple[int, ...]) -> Array:
    """Zero, the least scales of e4m3 and the largest."""
    return xp.asarray(np.resize([0, 2.0**-9, 7 * 2.0**-9, 2.0**-6, 448], shape))
