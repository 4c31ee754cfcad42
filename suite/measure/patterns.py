"""Input data that shows mistakes which uniform random numbers hide.

Patterns: mixed magnitudes, cancellation, ties, large numbers, limits. Each stands in for the random data of an input
that a family leaves open (``data=None``), or gives a range for, which it keeps to. It is made on the host, for small
problems.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter
from typing import Any

import numpy as np
from peakgate.core import dtypes
from peakgate.core.case import Array, Buffer, Case, Data, Role
from peakgate.measure.data import COMPLEX_PARTS, mixed, random_array, random_bits

PATTERNS = ("mixed", "cancelling", "powers", "large")
"""Of reals: rows and columns of mixed magnitude; neighbours that nearly cancel; powers of two and zeros of either sign,
so that many are equal, in runs too; rows of numbers up to 256, or far above, some of one sign, where outputs are real.
Of integers: all bit lengths; neighbours that cancel; powers of two and zeros; the limits. Of a range its ends and a few
numbers between, in place of powers."""

_OTHER_PART = 1 << 16
"""Added to the seed of the imaginary part of a pattern."""

_SEGMENT, _ROWS_ALIKE = 64, 8
"""Elements of one dimension that are like a row, and rows of a pattern that are alike."""

_ENOUGH_BYTES = 4096


def patterned(problems: Sequence[Case], patterns: Sequence[str] = PATTERNS) -> list[Case]:
    """One of a build's problems once with each of the patterns in its open inputs, named as its variant.

    It is the smallest with arguments of 4 KiB, or else the largest; empty where no problem has an open input, or all
    have saved results.
    """
    free = [problem for problem in problems if _takes_patterns(problem)]
    chosen = min(filter(_enough, free), key=_size, default=None) or max(free, key=_size, default=None)
    return [] if chosen is None else [each for pattern in patterns if (each := _filled(chosen, pattern)) is not chosen]


def varied(problems: Sequence[Case]) -> list[Case]:
    """A build's problems, those of 4 KiB and more with one pattern each in turn, and further ones for what is left.

    So a run meets every pattern for the price of the problems that it has anyway.
    """
    left = list(PATTERNS)
    found = []
    for problem in problems:
        pattern = next((each for each in left if _filled(problem, each) is not problem), None)
        if pattern is None or not _takes_patterns(problem) or not _enough(problem):
            found.append(problem)
            continue
        left.remove(pattern)
        found.append(_filled(problem, pattern))
    return [*found, *patterned(problems, left)]


_size = attrgetter("buffer_bytes")


def _enough(problem: Case) -> bool:
    return problem.buffer_bytes >= _ENOUGH_BYTES


def _takes_patterns(problem: Case) -> bool:
    return not isinstance(problem.reference, tuple) and any(map(_open, problem.inputs))


def _open(buffer: Buffer) -> bool:
    return buffer.data is None or (isinstance(buffer.data, tuple) and buffer.data[0] < buffer.data[1])


def _filled(case: Case, pattern: str) -> Case:
    """The case with this pattern in its open inputs; the case itself, unchanged, where none of them takes it.

    Large numbers become no integers: what is quantized or an index is meant to be in the range of random data.
    """
    whole = pattern == "large" and not all(dtypes.limits(buffer.dtype).unit_roundoff for buffer in case.outputs)
    arguments = tuple(
        replace(each, data=made)
        if isinstance(each, Buffer)
        and each.role in (Role.IN, Role.INOUT)
        and _open(each)
        and not (whole and dtypes.limits(each.dtype).unit_roundoff)
        and (made := _data(pattern, each.dtype, each.data, at))
        else each
        for at, each in enumerate(case.arguments)
    )
    if arguments == case.arguments:
        return case
    reference = case.reference
    if isinstance(reference, Case):  # another kernel on the same arguments
        reference = replace(reference, arguments=arguments)
    return replace(case, arguments=arguments, reference=reference, variant=f"{case.variant}{pattern}")


@cache
def _data(pattern: str, dtype: str, given: Data, seed: int) -> Data:
    """A pattern for one argument, None where its range has none: the same function for equal arguments."""
    real = dtypes.limits(dtype).kind in ("float", "complex")
    make: Callable[[tuple[int, ...], int], np.ndarray[Any, Any]]
    if isinstance(given, tuple):
        if pattern != "powers":
            return None
        make = partial(_ends, dtype, *given)
    else:
        make = partial((_REALS if real else _INTEGERS)[pattern], dtype)

    def data(xp: Any, shape: tuple[int, ...]) -> Array:
        values = make(shape, seed)
        return xp.asarray(values + 1j * make(shape, seed + _OTHER_PART) if dtype in COMPLEX_PARTS else values)

    return data


def _ends(dtype: str, low: float, high: float, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """The ends of a range, and a few numbers between them: many are equal."""
    if dtypes.limits(dtype).unit_roundoff:
        last = dtypes.below(dtype, high)
        few = np.array([low, last, *(low + (last - low) * np.arange(1, 7) / 8), *([0.0] if low < 0 < high else [])])
    else:
        first, last = int(low), int(high) - 1
        few = np.array([first, last, (first + last) // 2, min(first + 1, last)], dtypes.value_type(dtype))
    return _in_runs(few[random_bits(np, math.prod(shape), seed) % few.size].reshape(shape))


def _in_runs(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """One value behind the first column of every second block of rows; one dimension is taken for four rows."""
    rows = values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values[: values.size // 4 * 4].reshape(4, -1)
    alike = _ROWS_ALIKE if len(rows) > _ROWS_ALIKE else 1
    for first in range(alike, len(rows), 2 * alike) if rows.size else ():
        rows[first : first + alike, 1:] = rows[first, 0]
    return values


def _uniform(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    values: np.ndarray[Any, Any] = random_array(np, shape, "float64", seed)
    return values


def _mixed(_dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    values = _uniform(shape, seed)
    at = np.indices(shape[-2:], sparse=True)
    rows, columns = at if len(at) > 1 else (at[0] // _SEGMENT, at[0])
    small = np.array([0, 2, 4, 6, 8, 12, 24])
    values *= 2.0 ** -(small[rows % small.size] + columns % 5.0)
    return values


def _cancelling(_dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    flat = _uniform(shape, seed).reshape(-1)
    pairs = flat.size // 2
    flat[1 : 2 * pairs : 2] = -flat[: 2 * pairs : 2] * (1 - 2.0**-6)
    return flat.reshape(shape)


def _powers(_dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    bits = random_bits(np, math.prod(shape), seed).reshape(shape)
    sizes = np.where(bits % 8 == 7, 0.0, 2.0 ** -(1.0 + bits % 8))
    return _in_runs(np.copysign(sizes, np.where(bits >> 31, -1.0, 1.0)))


def _large(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Numbers whose exponential no float32 holds, and whose square no half, though these types hold themselves.

    Of four rows two have numbers of one sign, and two are far larger: a start of -1e4 for a maximum is none there.
    """
    values = _uniform(shape, seed)
    at = np.indices(shape[-2:], sparse=True)
    rows = at[0] if len(at) > 1 else at[0] // _SEGMENT
    larger = min(2.0**20, dtypes.limits(dtype).largest / 4)
    return np.where(rows % 4 < 2, values, -np.abs(values)) * np.where(rows % 2, larger, 256.0)


def _lengths(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Integers of every bit length, equally likely."""
    kind = dtypes.value_type(dtype)
    if kind.kind == "b":
        return _limits(dtype, shape, seed)
    values = random_array(np, shape, kind.name, seed)
    shifts = mixed(random_bits(np, math.prod(shape), seed) + np.uint32(3)).reshape(shape) % (8 * kind.itemsize)
    held = dtypes.limits(dtype)
    found: np.ndarray[Any, Any] = values >> shifts.astype(kind)
    return found if dtype not in dtypes.PACKED else np.clip(found, int(held.lowest), int(held.largest))


def _opposites(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Pairs of neighbours whose sum is zero, of unsigned integers modulo their range."""
    flat = _lengths(dtype, shape, seed).reshape(-1)
    if flat.dtype.kind != "b":
        pairs, held = flat.size // 2, dtypes.limits(dtype)
        opposite = np.subtract(flat.dtype.type(0), flat[: 2 * pairs : 2])
        flat[1 : 2 * pairs : 2] = (
            np.clip(opposite, int(held.lowest), int(held.largest)) if dtype in dtypes.PACKED else opposite
        )
    return flat.reshape(shape)


def _few(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Powers of two, of signed integers of either sign, and zeros."""
    kind, held = dtypes.value_type(dtype), dtypes.limits(dtype)
    exponents = range(8 * kind.itemsize)
    numbers = [0, *(sign << each for each in exponents for sign in (1, -1))]
    few = np.array([each for each in numbers if int(held.lowest) <= each <= _largest(dtype)], kind)
    return _in_runs(few[random_bits(np, math.prod(shape), seed) % few.size].reshape(shape))


def _limits(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Integers at and beside the limits of their type, and 0 and 1."""
    lowest, largest = int(dtypes.limits(dtype).lowest), _largest(dtype)
    special = np.array([lowest, largest, lowest + 1, largest - 1, 0, 1], dtypes.value_type(dtype))
    return _in_runs(special[random_bits(np, math.prod(shape), seed) % special.size].reshape(shape))


def _largest(dtype: str) -> int:
    """The largest integer of a type; no float holds that of 64 bits."""
    kind = dtypes.value_type(dtype)
    return int(np.iinfo(kind).max) if kind.itemsize == 8 else int(dtypes.limits(dtype).largest)


_Make = Callable[[str, tuple[int, ...], int], np.ndarray[Any, Any]]
_REALS: dict[str, _Make] = dict(zip(PATTERNS, (_mixed, _cancelling, _powers, _large), strict=True))
_INTEGERS: dict[str, _Make] = dict(zip(PATTERNS, (_lengths, _opposites, _few, _limits), strict=True))
