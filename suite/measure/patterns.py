"""Input data that shows mistakes which uniform random numbers hide: mixed magnitudes, cancellation, limits.

Each pattern stands in for the random data of an input that a family leaves open (``data=None``), and keeps to the same
range: reals in [-1, 1), integers of their whole range. It is made on the host, for small problems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from peakgate.core import dtypes
from peakgate.core.case import Array, Buffer, Case, Data, Role
from peakgate.measure.data import random_array

PATTERNS = ("mixed", "cancelling", "powers")
"""Of reals: rows and columns of mixed magnitude; neighbours that nearly cancel; exact powers of two. Integers are at
and beside their limits in each."""

_ENOUGH_BYTES = 4096


def patterned(problems: Sequence[Case], patterns: Sequence[str] = PATTERNS) -> list[Case]:
    """One of a build's problems once with each of the patterns in its open inputs, named as its variant.

    It is the smallest with arguments of 4 KiB, or else the largest; empty where no problem has an open input, or all
    have saved results.
    """
    free = [
        problem for problem in problems if not isinstance(problem.reference, tuple) and any(map(_open, problem.inputs))
    ]
    enough = [problem for problem in free if problem.buffer_bytes >= _ENOUGH_BYTES]
    chosen = min(enough, key=_size, default=None) or max(free, key=_size, default=None)
    return [] if chosen is None else [_filled(chosen, pattern) for pattern in patterns]


def _size(case: Case) -> int:
    return case.buffer_bytes


def _open(buffer: Buffer) -> bool:
    return buffer.data is None


def _filled(case: Case, pattern: str) -> Case:
    arguments = tuple(
        replace(each, data=_data(pattern, each.dtype, at))
        if isinstance(each, Buffer) and each.role in (Role.IN, Role.INOUT) and _open(each)
        else each
        for at, each in enumerate(case.arguments)
    )
    reference = case.reference
    if isinstance(reference, Case):  # another kernel on the same arguments
        reference = replace(reference, arguments=arguments)
    return replace(case, arguments=arguments, reference=reference, variant=f"{case.variant}{pattern}")


@cache
def _data(pattern: str, dtype: str, seed: int) -> Data:
    """A pattern for one argument: the same function for equal arguments, so that devices keep what it gives."""
    make = _REALS[pattern] if dtypes.limits(dtype).unit_roundoff else partial(_integers, dtype)

    def data(xp: Any, shape: tuple[int, ...]) -> Array:
        return xp.asarray(make(shape, seed))

    return data


def _uniform(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    values: np.ndarray[Any, Any] = random_array(np, shape, "float64", seed)
    return values


def _mixed(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    values = _uniform(shape, seed)
    for axis, period in zip(range(len(shape))[-2:], (7, 5), strict=False):
        exponents = np.arange(shape[axis]) % period
        values *= 2.0 ** -exponents.reshape([-1 if at == axis else 1 for at in range(len(shape))])
    return values


def _cancelling(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    flat = _uniform(shape, seed).reshape(-1)
    pairs = flat.size // 2
    flat[1 : 2 * pairs : 2] = -flat[: 2 * pairs : 2] * (1 - 2.0**-6)
    return flat.reshape(shape)


def _powers(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    bits = random_array(np, shape, "uint32", seed)
    powers: np.ndarray[Any, Any] = np.where(bits >> 31, -1.0, 1.0) * 2.0 ** -(1.0 + bits % 7)
    return powers


def _integers(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    limits, kind = dtypes.limits(dtype), dtypes.value_type(dtype)
    lowest, largest = int(limits.lowest), int(limits.largest)
    if kind.itemsize == 8:  # whose limits no float holds
        lowest, largest = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    special = np.array([lowest, largest, lowest + 1, largest - 1, 0, 1], kind)
    chosen: np.ndarray[Any, Any] = special[random_array(np, shape, "uint32", seed) % special.size]
    return chosen


_REALS: dict[str, Callable[[tuple[int, ...], int], np.ndarray[Any, Any]]] = dict(
    zip(PATTERNS, (_mixed, _cancelling, _powers), strict=True)
)
