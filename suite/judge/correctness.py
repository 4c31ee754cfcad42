"""Is the output right? Compared on the device that computed it, before anything is timed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from peakgate.case import Array, Case
from peakgate.common.text import counted

_ROWS_AT_A_TIME_BYTES = 1 << 29
"""Differences are taken in slices of about this size: a 16384 x 16384 product needs no second copy in float64."""


@dataclass(frozen=True, slots=True)
class Check:
    """How far a case's output is from its reference.

    ``error`` is ``max|out - ref| / max|ref|`` over all outputs, in float64; ``mismatch`` names the first wrong
    element when the case is wrong, None when it is right.
    """

    error: float
    mismatch: str | None

    @property
    def right(self) -> bool:
        return self.mismatch is None


Compared = Callable[[Array, Array], tuple[float, float] | None]
"""A device's own way to the largest ``|found - wanted|`` and ``|wanted|``; None where it has none for these arrays."""


def check(
    xp: Any,
    case: Case,
    outputs: Sequence[Array],
    expected: Sequence[Array],
    compared: Compared = lambda _found, _wanted: None,
) -> Check:
    """Compare every output with its reference; equal bits where the case's tolerance is 0.

    Outputs are poisoned with NaN before the launch, so an element the kernel never wrote is wrong as well. What
    ``compared`` does not find right is compared with ``xp``, which says where.
    """
    if len(outputs) != len(expected):
        raise ValueError(f"{case.id}: {counted(len(outputs), 'output')}, but the reference gives {len(expected)}")
    worst = 0.0
    for position, (found, wanted) in enumerate(zip(outputs, expected, strict=True)):
        if found.shape != wanted.shape:
            raise ValueError(f"{case.id}: output {position} is {found.shape}, its reference {wanted.shape}")
        error = _quick_error(compared(found, wanted), case.tolerance)
        if error is not None:
            worst = max(worst, error)
            continue
        output, reference = found, wanted
        if found.dtype.kind == "c":
            output, reference = _as_parts(found), _as_parts(xp.asarray(wanted, dtype="complex128"))
        if case.tolerance == 0:
            wrong = output != reference
            if bool(wrong.any()):
                return Check(math.inf, _describe(output, reference, _unravel(xp, wrong), position))
            continue
        error, wrong_at = _normwise_error(xp, output, reference, case.tolerance)
        worst = max(worst, error)
        if wrong_at is not None:
            return Check(error, _describe(output, reference, wrong_at, position))
    return Check(worst, None)


def _quick_error(largest: tuple[float, float] | None, tolerance: float) -> float | None:
    """The error of an output that is right by its largest difference; None where that does not say so."""
    if largest is None:
        return None
    difference, size = largest
    error = difference / (size or 1.0)
    right = math.isfinite(size) and (difference == 0 if tolerance == 0 else error <= tolerance)
    return error if right else None


def _normwise_error(xp: Any, output: Array, reference: Array, tolerance: float) -> tuple[float, tuple[int, ...] | None]:
    scale = float(xp.abs(reference).max()) or 1.0
    row_bytes = max(1, 8 * math.prod(output.shape[1:]))
    step = max(1, _ROWS_AT_A_TIME_BYTES // row_bytes)
    worst = 0.0
    for start in range(0, output.shape[0], step):
        rows = slice(start, start + step)
        error = xp.abs(output[rows].astype("float64") - reference[rows]) / scale
        bad = ~(error <= tolerance)  # also true where the output is NaN
        if bool(bad.any()):
            index = _unravel(xp, bad)
            return float(error[index]), (index[0] + start, *index[1:])
        worst = max(worst, float(error.max()))
    return worst, None


def _as_parts(array: Array) -> Array:
    """Complex numbers as their real and imaginary parts along a last axis."""
    contiguous = array.copy()
    return contiguous.view(contiguous.real.dtype).reshape(*array.shape, 2)


def _unravel(xp: Any, flags: Array) -> tuple[int, ...]:
    return tuple(int(axis) for axis in xp.unravel_index(xp.argmax(flags), flags.shape))


def _describe(output: Array, reference: Array, index: tuple[int, ...], position: int) -> str:
    where = ", ".join(map(str, index))
    return f"output {position} [{where}] is {float(output[index]):.9g}, expected {float(reference[index]):.9g}"
