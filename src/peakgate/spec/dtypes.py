"""Types of elements: NumPy's own, and those of CUDA that NumPy and CuPy lack.

Elements of bfloat16 and of the 8-bit floats are stored as their bits, in unsigned integers of their size; of int4 and
uint4 a byte holds two neighbours of the last axis, the first in its low half. NumPy and CuPy arrays hold either, so the
emulator and a GPU are given the same. ``decoded`` gives the values of stored elements, ``encoded`` the elements that
store values; ``xp`` is the array module, NumPy or CuPy.
"""

from __future__ import annotations

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

BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""Floating-point types that NumPy lacks, named as PyTorch and ml_dtypes do, and what holds their bits."""

PACKED = {"int4": "int8", "uint4": "uint8"}
"""Types of half a byte, and the type of their values."""

RAW = BITS.keys() | PACKED.keys()
"""Types that NumPy lacks."""

_KINDS: dict[str, NumberKind] = {"f": "float", "i": "int", "u": "uint", "b": "bool", "c": "complex"}
_SIZES = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64), "complex": (64, 128)}
KNOWN = ("bool", *(f"{kind}{size}" for kind, sizes in _SIZES.items() for size in sizes), *BITS, *PACKED)


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers of a type, of a complex one those of its parts.

    ``unit_roundoff`` is half the machine epsilon, 0 for integers and bool; ``smallest_step`` the least distance of two
    numbers (the smallest subnormal one); ``lowest`` and ``largest`` are the finite numbers farthest from 0.
    """

    kind: NumberKind
    unit_roundoff: float
    smallest_normal: float
    smallest_step: float
    lowest: float
    largest: float


@cache
def storage(dtype: str) -> np.dtype[Any]:
    """The type of the array that holds such elements; PeakgateError for a name that is no type here."""
    if dtype in RAW:
        return np.dtype(BITS.get(dtype, "uint8"))
    if dtype == "float8_e4m3":
        raise PeakgateError("type 'float8_e4m3': CUDA's __nv_fp8_e4m3 is float8_e4m3fn; write that name", Code.TYPE)
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.kind not in _KINDS or not found.isbuiltin == 1:
        raise PeakgateError(
            f"type {dtype!r} is unknown{nearest(str(dtype), KNOWN)}; expected one of {', '.join(KNOWN)}", Code.TYPE
        )
    return found


def storage_shape(shape: Sequence[int], dtype: str) -> tuple[int, ...]:
    """The shape of the array that holds elements of this shape.

    PeakgateError for a name that is no type, and where the last element of a row would have half a byte to itself.
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
    """The type of what ``decoded`` gives: float32 for a float that NumPy lacks, an integer of 8 bits for one of 4."""
    return np.dtype("float32") if dtype in BITS else np.dtype(PACKED[dtype]) if dtype in PACKED else storage(dtype)


def decoded(xp: Any, array: Array, dtype: str) -> Array:
    """The values of stored elements, exactly, in their own shape; the very same array for a type of NumPy's."""
    if dtype == "bfloat16":
        return (array.astype("uint32") << 16).view("float32")
    if dtype in BITS:
        return xp.take(xp.asarray(_format(dtype).values), array)
    if dtype not in PACKED:
        return array
    halves = xp.stack((array & 15, array >> 4), axis=-1).reshape(*array.shape[:-1], 2 * array.shape[-1])
    return (halves ^ 8).view("int8") - 8 if dtype == "int4" else halves  # its fourth bit is the sign


def encoded(xp: Any, values: Array, dtype: str) -> Array:
    """The elements that store real values, rounded to nearest even; those of a type of NumPy's as ``astype`` does.

    Beyond its largest number a value becomes infinity in bfloat16, but as CUDA does by default that number in an 8-bit
    float, as in an integer of 4 bits. NaN has no place among integers.
    """
    if dtype in PACKED:
        held = limits(dtype)
        halves = xp.clip(xp.rint(values), held.lowest, held.largest).astype("int8").view("uint8") & 15
        return halves[..., ::2] | halves[..., 1::2] << 4
    if dtype not in BITS:
        return values.astype(dtype)
    of = _format(dtype)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        wide = values.astype("float64")
    magnitude = xp.searchsorted(xp.asarray(of.starts), xp.abs(wide), side="right")
    magnitude = xp.where(xp.isnan(wide), of.not_a_number, magnitude)
    return (magnitude + xp.signbit(values) * len(of.values) // 2).astype(BITS[dtype])


def read(xp: Any, array: Array, shape: Sequence[int], dtype: str) -> Array:
    """The values of an array, of whatever type and shape, that is given for elements of this type and shape.

    Elements of the type itself, by ml_dtypes, also as ``numpy.load`` gives them back (void), and elements as they are
    stored are decoded; all else are values.
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
    """The type of what is passed by value; PeakgateError for one of half a byte."""
    if dtype in PACKED:
        raise PeakgateError(
            f"a value of type {dtype}: half a byte cannot be an argument by itself; expected int8 or uint8", Code.TYPE
        )
    return storage(dtype)


def scalar(value: float, dtype: str) -> np.generic:
    """One number as it is passed by value."""
    if dtype in BITS:
        stored: np.generic = encoded(np, np.array([value]), dtype)[0]
        return stored
    native: np.generic = scalar_type(dtype).type(value)
    return native


@cache
def limits(dtype: str) -> Limits:
    """The numbers of a type."""
    kind: NumberKind = "float" if dtype in BITS else _KINDS[value_type(dtype).kind]
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
        float(info.eps) / 2,
        float(info.smallest_normal),
        float(info.smallest_subnormal),
        float(info.min),
        float(info.max),
    )


def unit_of_sums(dtype: str) -> float:
    """Unit roundoff of the sums behind an output: float64's for that type, else float32's, which kernels add in."""
    return limits("float64" if dtype in ("float64", "complex128") else "float32").unit_roundoff


def below(dtype: str, bound: float) -> float:
    """The largest number of a floating-point type that is less than ``bound``."""
    if dtype not in BITS:
        native = storage(dtype).type(bound)
        return float(np.nextafter(native, -np.inf, dtype=native.dtype))
    values = _format(dtype).values
    return float(values[np.isfinite(values) & (values < bound)].max())


@dataclass(frozen=True, slots=True)
class _Format:
    """A floating-point type by its bit patterns.

    ``values`` has the value of each, ``starts`` the least magnitude that rounds to each positive pattern after the
    first: those which are no NaN, and infinity only where ``encoded`` gives it.
    """

    values: np.ndarray[Any, Any]
    starts: np.ndarray[Any, Any]
    not_a_number: int


@cache
def _format(dtype: str) -> _Format:
    bits = storage(dtype)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        values = np.arange(1 << 8 * bits.itemsize).astype(bits).view(_of_ml_dtypes(dtype)).astype("float32")
        magnitudes = values[: len(values) // 2].astype("float64")  # patterns of positive numbers are in order
    finite = magnitudes[np.isfinite(magnitudes)]
    if bits.itemsize == 2:
        finite = np.append(finite, 2 * finite[-1] - finite[-2])  # in place of infinity
    halfway = (finite[:-1] + finite[1:]) / 2
    # Halfway is rounded to the even one of two patterns: down from an even one, up from an odd one.
    starts = np.where(np.arange(len(halfway)) % 2, halfway, np.nextafter(halfway, np.inf))
    return _Format(values, starts, int(np.flatnonzero(np.isnan(magnitudes))[-1]))


def _of_ml_dtypes(dtype: str) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(getattr(_ml_dtypes(), dtype))
    return found


def _ml_dtypes() -> Any:
    import ml_dtypes  # noqa: PLC0415  (a run that has none of its types saves 20 ms)

    return ml_dtypes
