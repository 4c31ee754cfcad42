"""Types of elements: NumPy's own, and those of CUDA that NumPy and CuPy lack.

Elements of bfloat16 and of the 8-bit floats are stored as their bits, in unsigned integers of their size. int4, uint4
and float4_e2m1fn are packed: a byte has two neighbours of the last axis, the first in its low half. So NumPy and CuPy
arrays can store all types. ``decoded`` converts stored elements to values, ``encoded`` values to stored elements;
``xp`` is the array module, NumPy or CuPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import nearest

Array = Any
"""An array of the device's array module (NumPy or CuPy)."""

NumberKind = Literal["float", "int", "uint", "bool", "complex"]

SCALE = "float8_e8m0fnu"
"""The type of scales of the microscaling formats (OCP's "Microscaling Formats (MX) Specification", 2023): powers of two
from 2**-127 to 2**127, without zero or sign. Its numbers are exact, not rounded."""

BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8", SCALE: "uint8"}
"""Floating-point types that NumPy lacks, named as in PyTorch and ml_dtypes, and the type that stores their bits."""

PACKED = {"int4": "int8", "uint4": "uint8", "float4_e2m1fn": "float32"}
"""4-bit types, and the type of their values."""

RAW = BITS.keys() | PACKED.keys()
"""Types that NumPy lacks."""

_KINDS: dict[str, NumberKind] = {"f": "float", "i": "int", "u": "uint", "b": "bool", "c": "complex"}
_SIZES = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64), "complex": (64, 128)}
_OTHER_NAMES = {
    **dict.fromkeys(("half", "fp16", "__half"), "float16"),
    **dict.fromkeys(("bf16", "__nv_bfloat16"), "bfloat16"),
    **dict.fromkeys(("float", "single", "fp32"), "float32"),
    **dict.fromkeys(("double", "fp64"), "float64"),
    **dict.fromkeys(("float8_e4m3", "e4m3", "__nv_fp8_e4m3"), "float8_e4m3fn"),
    **dict.fromkeys(("e5m2", "__nv_fp8_e5m2"), "float8_e5m2"),
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "unsigned": "uint32",
    "long": "int64",
    "size_t": "uint64",
}
"""Names of types in CUDA and elsewhere. None is accepted: NumPy's ``float`` has 64 bits, CUDA's 32."""

KNOWN = ("bool", *(f"{kind}{size}" for kind, sizes in _SIZES.items() for size in sizes), *BITS, *PACKED)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a type; for a complex type those of its parts.

    ``unit_roundoff`` is half the machine epsilon, 0 for integers, bool and powers of two; ``smallest_step`` the
    smallest subnormal number, 1 for integers; ``lowest`` and ``largest`` are the extreme finite numbers.
    """

    kind: NumberKind
    unit_roundoff: float
    smallest_normal: float
    smallest_step: float
    lowest: float
    largest: float


@cache
def storage(dtype: str) -> np.dtype[Any]:
    """The type of the array that stores such elements; raises PeakgateError for a type that is not in ``KNOWN``."""
    if dtype in RAW:
        return np.dtype(BITS.get(dtype, "uint8"))
    if dtype not in KNOWN:
        other = _OTHER_NAMES.get(dtype)
        meant = f", did you mean {other!r}?" if other else nearest(str(dtype), KNOWN)
        raise PeakgateError(f"type {dtype!r} is unknown{meant}; expected one of {', '.join(KNOWN)}", Code.TYPE)
    return np.dtype(dtype)


def storage_shape(shape: Sequence[int], dtype: str) -> tuple[int, ...]:
    """The shape of the array that stores elements of this shape.

    Raises PeakgateError for an unknown type, and for packed types with a last axis of odd length.
    """
    if dtype not in PACKED:
        storage(dtype)
        return tuple(shape)
    if not shape or shape[-1] % 2:
        raise PeakgateError(
            f"{dtype} of shape {tuple(shape)}: two share a byte, expected a last axis of even length", Code.TYPE
        )
    return (*shape[:-1], shape[-1] // 2)


def value_type(dtype: str) -> np.dtype[Any]:
    """The type of decoded values: float32 for a float that NumPy lacks, 8-bit integers for 4-bit integers."""
    return np.dtype("float32") if dtype in BITS else np.dtype(PACKED[dtype]) if dtype in PACKED else storage(dtype)


def decoded(xp: Any, array: Array, dtype: str) -> Array:
    """The exact values of stored elements; the same array object for a NumPy type."""
    if dtype == "bfloat16":
        return (array.astype("uint32") << 16).view("float32")
    if dtype in BITS:
        return xp.take(xp.asarray(_format(dtype).values), array)
    if dtype not in PACKED:
        return array
    halves = xp.stack((array & 15, array >> 4), axis=-1).reshape(*array.shape[:-1], 2 * array.shape[-1])
    if PACKED[dtype] == "float32":
        return xp.take(xp.asarray(_format(dtype).values), halves)
    return (halves ^ 8).view("int8") - 8 if dtype == "int4" else halves  # its fourth bit is the sign


def encoded(xp: Any, values: Array, dtype: str) -> Array:
    """The stored elements of real values, rounded to nearest even; for a NumPy type the result of ``astype``.

    A value beyond the largest number becomes infinity in bfloat16. It saturates in an 8-bit float, as CUDA does by
    default, and in a 4-bit type. NaN becomes the largest number of float4_e2m1fn, as in CUDA, and must not be encoded
    as a 4-bit integer. A negative number becomes NaN in float8_e8m0fnu, and zero its smallest number.
    """
    if dtype in PACKED:
        held = limits(dtype)
        if held.kind == "float":
            halves = _patterns(xp, values, dtype)
        else:
            halves = xp.clip(xp.rint(values), held.lowest, held.largest).astype("int8").view("uint8") & 15
        return halves[..., ::2] | halves[..., 1::2] << 4
    if dtype == "bfloat16":
        return _bfloat16(xp, values)
    return _patterns(xp, values, dtype) if dtype in BITS else values.astype(dtype)


def _bfloat16(xp: Any, values: Array) -> Array:
    """The bit patterns in bfloat16, from those in float64; CuPy's float32 would flush subnormal numbers."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        sizes = xp.abs(values.astype("float64"))
    bits, dropped = sizes.view("uint64"), np.uint64(52 - 7)
    half_below = (np.uint64(1) << dropped - np.uint64(1)) - np.uint64(1)
    rounded = (bits + half_below + (bits >> dropped & np.uint64(1)) >> dropped) - np.uint64(1023 - 127 << 7)
    subnormal = xp.rint(xp.fmin(sizes, 2.0**-126) * 2.0**133).astype("uint64")
    found = xp.where(sizes < 2.0**-126, subnormal, xp.minimum(rounded, np.uint64(0x7F80)))
    found = xp.where(xp.isnan(sizes), np.uint64(0x7FFF), found)
    return (found | xp.signbit(values).astype("uint64") << np.uint64(15)).astype("uint16")


def _patterns(xp: Any, values: Array, dtype: str) -> Array:
    """The bit pattern of each value in a floating-point type of at most 8 bits."""
    of = _format(dtype)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        wide = values.astype("float64")
    found = xp.searchsorted(xp.asarray(of.starts), xp.abs(wide), side="right")
    found = xp.where(xp.isnan(wide) | (wide < of.least), of.not_a_number, found)
    if of.least < 0:
        found = found + xp.signbit(values) * len(of.values) // 2
    return found.astype(storage(dtype))


def read(xp: Any, array: Array, shape: Sequence[int], dtype: str) -> Array:
    """The values of a user's array for elements of this type and shape.

    Elements of ml_dtypes' type (or void of its size, as ``numpy.load`` returns it) and stored elements are decoded; any
    other array has values.
    """
    if dtype not in RAW:
        return xp.asarray(array)
    own = _of_ml_dtypes(dtype)
    if array.dtype.kind == "V" and array.dtype.itemsize == own.itemsize and array.dtype.names is None:
        array = array.view(own)
    if array.dtype == own:
        return xp.asarray(array.astype(value_type(dtype)))
    if (array.dtype, array.shape) == (storage(dtype), storage_shape(shape, dtype)):
        return decoded(xp, xp.asarray(array), dtype)
    return xp.asarray(array)


def scalar_type(dtype: str) -> np.dtype[Any]:
    """The type of an argument passed by value; raises PeakgateError for a 4-bit type."""
    if dtype in PACKED:
        raise PeakgateError(
            f"a value of type {dtype}: half a byte cannot be an argument by itself; expected int8 or uint8", Code.TYPE
        )
    return storage(dtype)


def scalar(value: float, dtype: str) -> np.generic:
    """One number as an argument passed by value."""
    if dtype in BITS:
        stored: np.generic = encoded(np, np.array([value]), dtype)[0]
        return stored
    native: np.generic = scalar_type(dtype).type(value)
    return native


@cache
def limits(dtype: str) -> Limits:
    """The limits of a type."""
    kind = _KINDS[value_type(dtype).kind]
    if kind == "bool":
        return Limits(kind, 0.0, 1.0, 1.0, 0.0, 1.0)
    module: Any = _ml_dtypes() if dtype in RAW else np
    found = _of_ml_dtypes(dtype) if dtype in RAW else storage(dtype)
    if kind in ("int", "uint"):
        whole = module.iinfo(found)
        return Limits(kind, 0.0, 1.0, 1.0, float(whole.min), float(whole.max))
    info = module.finfo(found)
    return Limits(
        kind,
        0.0 if dtype == SCALE else float(info.eps) / 2,
        float(info.smallest_normal),
        float(info.smallest_subnormal),
        float(info.min),
        float(info.max),
    )


def unit_of_sums(dtype: str) -> float:
    """The unit roundoff of the type in which kernels accumulate: float64 for outputs of that type, else float32."""
    return limits("float64" if dtype in ("float64", "complex128") else "float32").unit_roundoff


def below(dtype: str, bound: float) -> float:
    """The largest number of a floating-point type that is less than ``bound``."""
    if dtype not in RAW:
        native = storage(dtype).type(bound)
        return float(np.nextafter(native, -np.inf, dtype=native.dtype))
    values = _format(dtype).values
    return float(values[np.isfinite(values) & (values < bound)].max())


@dataclass(frozen=True, slots=True)
class _Format:
    """A floating-point type by its bit patterns.

    ``values`` has the value of each pattern, ``starts`` the least magnitude that rounds to each positive pattern after
    the first, without NaN and infinity, since types of at most 8 bits saturate. ``not_a_number`` is the pattern for NaN
    and for numbers below ``least``.
    """

    values: np.ndarray[Any, Any]
    starts: np.ndarray[Any, Any]
    not_a_number: int
    least: float


@cache
def _format(dtype: str) -> _Format:
    bits, signed = storage(dtype), dtype != SCALE
    patterns = 16 if dtype in PACKED else 1 << 8 * bits.itemsize
    with np.errstate(invalid="ignore"):  # signalling NaNs
        values = np.arange(patterns).astype(bits).view(_of_ml_dtypes(dtype)).astype("float32")
        positive = values[: patterns // 2] if signed else values  # their patterns are in order
        magnitudes = positive.astype("float64")
    finite = magnitudes[np.isfinite(magnitudes)]
    halfway = (finite[:-1] + finite[1:]) / 2
    # Ties are rounded to the even pattern: down from an even one, up from an odd one.
    starts = np.where(np.arange(len(halfway)) % 2, halfway, np.nextafter(halfway, np.inf))
    last = np.flatnonzero(np.isnan(magnitudes)) if np.isnan(magnitudes).any() else [len(magnitudes) - 1]
    return _Format(values, starts, int(last[-1]), -math.inf if signed else 0.0)


def _of_ml_dtypes(dtype: str) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(getattr(_ml_dtypes(), dtype))
    return found


def _ml_dtypes() -> Any:
    import ml_dtypes  # noqa: PLC0415  (takes 20 ms)

    return ml_dtypes
