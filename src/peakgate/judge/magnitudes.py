"""Estimates the magnitude of the terms summed into each element of an output, if a family does not give it.

By backward error analysis a kernel that rounds products and sums computes the exact result of slightly perturbed
inputs. So the reference is evaluated again on randomly perturbed inputs, and an element's magnitude is four standard
deviations of its change, relative to the perturbation. For ``sum(a * b)`` that is about
``4 * sqrt(sum((a * b)**2))``, which the error of such a sum seldom exceeds even with cancellation; for ``exp(x)`` it is
``4 * |x| * exp(x)``. Stochastic arithmetic (CESTAC) estimates rounding errors in the same way.

If an element is wrong by that bound too, the reference is evaluated in float32: its error there is that of a kernel
with the same steps. For ``1 - cos(x)`` near 0 that error is as large as the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peakgate.measure.data import random_bits
from peakgate.spec.case import Array

SHARE = 2.0**-20
"""The largest relative perturbation of an input: small enough for the reference to be nearly linear, and far above
float64's rounding."""

_DEVIATIONS = 4.0
_EVALUATIONS = 3
_NEIGHBOURS = 64
_BOUND_BY_NEIGHBOURS = 2.0**-4
_MOST_BY_NEIGHBOURS = 64.0
_UNITS_BY_NEIGHBOURS = 8.0
"""An element may change little by chance, or because the reference is better conditioned than a right kernel:
``1 + tanh(x)`` loses digits that ``1 - tanh(-x)`` keeps. So the root mean square change of ``_NEIGHBOURS`` in memory
counts too. It raises an element's bound to eight roundings of the neighbours' size, and further only up to 1/16 of the
element, so that a row of small elements keeps small bounds next to rows of large ones. It does not count where the
reference is exact in float32, as a choice between two numbers is: nothing is lost there but by the kernel."""

_ROUNDED_EVALUATIONS, _ROUNDINGS = 6, 4.0
"""The largest error of this many evaluations in float32, times this factor, is allowed: one may be exact by chance. The
first has the inputs themselves, which alone may be next to a limit where the reference chooses: ``x >= top - 3``."""

_LOST = 64.0
_UNIT_OF_FLOAT64 = 2.0**-53
"""An element whose error in float32 is more than ``_LOST`` roundings of it has lost its digits in a cancellation, and
one that is zero perhaps all: ``log(1 + exp(x))`` of -60 is zero in float64 too, where a kernel by log1p is right. The
largest such error for other inputs, in float64, counts as one of its errors."""

_FAR_SMALLER = 2.0**-40

_SHARES_RMS = math.sqrt(7 / 12)
"""The root mean square of ``shares``, whose magnitudes are uniform in [1/2, 1) so that every input changes."""

_WIDE, _NARROW = {"f": "float64", "c": "complex128"}, {"f": "float32", "c": "complex64"}
_UNIT_OF_FLOAT32 = 2.0**-24
_SEED = 0x5EED
_ROW = 1024


@dataclass(frozen=True, slots=True)
class Rounded:
    """How an output rounds: its tolerance, and the unit roundoff of the sums that make it."""

    tolerance: float
    unit: float


@dataclass(frozen=True, slots=True)
class Moved:
    """Outputs in float64, how each rounds, and how far each element moves with the inputs: relative to their change.

    ``moves`` is None where no input can be perturbed, or the reference fails on perturbed inputs: the root mean square
    of an element's row then stands for its magnitude.
    """

    values: Sequence[Array]
    rounded: Sequence[Rounded]
    moves: Sequence[Array] | None

    def alone(self, xp: Any) -> list[Array | None]:
        """The magnitudes by each element's own change."""
        if self.moves is None:
            return [of_row(xp, value) for value in self.values]
        each = zip(self.moves, self.values, self.rounded, strict=True)
        return [_own(xp, moves, xp.abs(value)) if moves.size and how.tolerance else None for moves, value, how in each]

    def with_neighbours(self, xp: Any, exact: Sequence[bool] = ()) -> list[Array | None]:
        """The magnitudes by the change of an element and its neighbours, which do not count for ``exact`` outputs."""
        own = self.alone(xp)
        if self.moves is None:
            return own
        each = zip(own, self.moves, self.rounded, exact or [False] * len(own), strict=True)
        return [
            found if found is None or alone else _raised(xp, found, moves, how) for found, moves, how, alone in each
        ]


def estimated(
    xp: Any,
    reference: Callable[[Sequence[Array]], Sequence[Array]],
    inputs: Sequence[Array],
    values: Sequence[Array],
    rounded: Sequence[Rounded],
) -> Moved:
    """How the outputs ``values`` of ``reference`` move for ``inputs`` in float64; integer inputs are not perturbed."""

    def moved(seed: int) -> Sequence[Array]:
        if not any(array.dtype.kind in "fc" for array in inputs):
            raise ValueError("no input rounds")
        return reference([_moved(xp, array, seed + at) for at, array in enumerate(inputs)])

    return by_evaluations(xp, values, rounded, moved, SHARE)


def exact_in_float32(
    reference: Callable[[Sequence[Array]], Sequence[Array]], inputs: Sequence[Array], values: Sequence[Array]
) -> list[bool]:
    """Whether the reference computes each output in float32, and without a rounding in any element."""
    try:
        with np.errstate(all="ignore"):
            narrow = reference(_as(_NARROW, inputs))
            pairs = list(zip(narrow, values, strict=True))
            return [
                getattr(one, "dtype", None) in _NARROW.values() and bool((one == value).all()) for one, value in pairs
            ]
    except (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError):
        return [False] * len(values)


def with_rounding(
    xp: Any,
    reference: Callable[[Sequence[Array]], Sequence[Array]],
    inputs: Sequence[Array],
    known: Sequence[Array | None],
    rounded: Sequence[Rounded],
    *,
    redrawn: Callable[[int], Sequence[Array]],
    overflows_beyond: float = 0.0,
    alike: bool = False,
) -> list[Array | None]:
    """The ``known`` magnitudes, raised to the error of the reference in float32 on the inputs and on perturbed ones.

    An output of few elements has no neighbours, and none of another size if inputs are ``alike``: for it one rounding
    of its elements for other inputs, ``redrawn(seed)``, counts as such an error. For a float64 output the error is
    scaled by the ratio of the roundoffs. Where the reference cancels its own error in float64 is such an error too. A
    magnitude is infinite where only the float32 reference overflows, as a kernel with the same steps does, and the
    element is larger than ``overflows_beyond`` or smaller than its inverse. It is NaN if the float64 reference
    overflows but would not for far smaller inputs (unlike ``1 / 0``): the element is then not judged. Magnitudes are
    unchanged if the reference raises an error.
    """
    errors: list[Any] = [0.0] * len(known)
    lost: list[Any] = [None] * len(known)
    unknown = [xp.zeros((), "bool")] * len(known)  # CuPy does not accept a Python bool as a condition
    few = [value is not None and (alike or value.size < _NEIGHBOURS) for value in known]
    for evaluation in range(_ROUNDED_EVALUATIONS):
        moved = [_moved(xp, array, _SEED * evaluation + at) if evaluation else array for at, array in enumerate(inputs)]
        narrow = _as(_NARROW, moved)
        wide = _as(_WIDE, narrow)
        try:
            with np.errstate(all="ignore"):
                exact = reference(wide)
                for at, (one, other) in enumerate(zip(reference(narrow), exact, strict=True)):
                    error = _distance(xp, one, other)
                    lost[at] = _lost(xp, error, other) | (other == 0)
                    size = xp.abs(other)
                    excused = (size > overflows_beyond) | (size * overflows_beyond < 1.0)
                    overflow = xp.where(xp.isfinite(size) & excused, math.inf, 0.0)
                    errors[at] = xp.fmax(errors[at], xp.where(xp.isfinite(error), error, overflow))
                if not evaluation and not all(bool(xp.isfinite(value).all()) for value in exact):
                    smaller = reference([array * _FAR_SMALLER if array.dtype.kind in "fc" else array for array in wide])
                    for at, (value, other) in enumerate(zip(exact, smaller, strict=True)):
                        unknown[at] = ~xp.isfinite(value) & xp.isfinite(other)
                for at, value in enumerate(reference(redrawn(evaluation)) if any(few) else ()):
                    if few[at]:
                        sizes = xp.abs(value)
                        errors[at] = xp.fmax(
                            errors[at], _UNIT_OF_FLOAT32 * xp.where(xp.isfinite(sizes), sizes, 0.0).max()
                        )
                if not evaluation and any(bool(each.any()) for each in lost):
                    drawn = redrawn(0)
                    pairs = zip(reference(_as(_NARROW, drawn)), reference(drawn), strict=True)
                    for at, (one, other) in enumerate(pairs):
                        error = _distance(xp, one, other)
                        largest = xp.where(_lost(xp, error, other), error, 0.0).max()
                        in_float64 = largest * (_UNIT_OF_FLOAT64 / _UNIT_OF_FLOAT32)
                        errors[at] = xp.where(lost[at], xp.fmax(errors[at], in_float64), errors[at])
        except (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError):
            return list(known)
    factors = [_ROUNDINGS * how.unit / _UNIT_OF_FLOAT32 / (how.tolerance or 1.0) for how in rounded]
    return [
        None if magnitude is None else xp.where(unsure, math.nan, xp.fmax(magnitude, factor * error))
        for magnitude, factor, error, unsure in zip(known, factors, errors, unknown, strict=True)
    ]


def _as(types: Mapping[str, str], arrays: Sequence[Array]) -> list[Array]:
    """Copies of the arrays, those of the kinds in ``types`` in these types."""
    return [array.astype(types.get(array.dtype.kind, array.dtype)) for array in arrays]


def _lost(xp: Any, error: Array, value: Array) -> Array:
    return xp.isfinite(error) & (error > _LOST * _UNIT_OF_FLOAT32 * xp.abs(value))


def by_evaluations(
    xp: Any,
    values: Sequence[Array],
    rounded: Sequence[Rounded],
    moved: Callable[[int], Sequence[Array]],
    share: float,
) -> Moved:
    """How ``values`` move; ``moved(seed)`` returns them for inputs perturbed by up to ``share``, or raises an error."""
    squares: list[Any] = [0.0] * len(values)
    for evaluation in range(_EVALUATIONS):
        try:
            with np.errstate(all="ignore"):
                others = moved(_SEED * evaluation)
                for at, (other, value) in enumerate(zip(others, values, strict=True)):
                    squares[at] = squares[at] + _distance(xp, other, value) ** 2
        except (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError):
            return Moved(values, rounded, None)
    scale = _DEVIATIONS / (share * _SHARES_RMS * math.sqrt(_EVALUATIONS))
    return Moved(values, rounded, [xp.sqrt(each) * scale for each in squares])


def _distance(xp: Any, other: Array, value: Array) -> Array:
    if other.shape != value.shape:
        raise ValueError(f"shape {other.shape}, expected {value.shape}")
    wide = "complex128" if value.dtype.kind == "c" else "float64"
    return xp.abs(xp.asarray(other, wide) - xp.asarray(value, wide))


def _moved(xp: Any, array: Array, seed: int) -> Array:
    if array.dtype.kind not in "fc":
        return array
    return array * (1.0 + SHARE * shares(xp, array.shape, seed).astype("float64"))


def shares(xp: Any, shape: tuple[int, ...], seed: int) -> Array:
    """Random numbers of either sign with magnitudes from a half to one, in float32."""
    bits = random_bits(xp, math.prod(shape), seed).reshape(shape)
    sizes = (bits >> np.uint32(9)).astype(np.float32) * np.float32(2.0**-24) + np.float32(0.5)
    return xp.where(bits & np.uint32(1) != 0, sizes, -sizes)


def of_row(xp: Any, value: Array) -> Array | None:
    """The root mean square of each element's row, or of 1024 neighbours; None for integers and empty arrays."""
    if value.dtype.kind not in "fc" or not value.size:
        return None
    with np.errstate(all="ignore"):
        squares = xp.abs(value.astype("complex128" if value.dtype.kind == "c" else "float64")) ** 2
    return xp.sqrt(_neighbours(xp, squares, min([_ROW, *value.shape[-1:]]))).reshape(value.shape)


def _own(xp: Any, moves: Array, sizes: Array) -> Array:
    return xp.fmax(xp.where(xp.isfinite(moves), moves, 0.0), sizes)


def _raised(xp: Any, own: Array, moves: Array, rounded: Rounded) -> Array:
    """The ``own`` magnitudes, raised as far as the moves of neighbours allow."""
    around = xp.sqrt(_neighbours(xp, moves**2, _NEIGHBOURS)).reshape(moves.shape)
    most = min(max(_BOUND_BY_NEIGHBOURS / rounded.tolerance, 1.0), _MOST_BY_NEIGHBOURS)
    least = _UNITS_BY_NEIGHBOURS * rounded.unit / rounded.tolerance / _DEVIATIONS
    return xp.fmax(own, xp.fmax(xp.fmin(around, most * own), least * around))


def _neighbours(xp: Any, values: Array, width: int) -> Array:
    """For each element the mean of its group of ``width`` in memory order; non-finite values count as zero."""
    flat = xp.where(xp.isfinite(values), values, 0.0).reshape(-1)
    width = min(width, flat.size)
    whole = flat.size // width * width
    means = flat[:whole].reshape(-1, width) @ xp.full(width, 1 / width)  # CuPy would compile a reduction for seconds
    shared = xp.repeat(means, width)
    return shared if whole == flat.size else xp.concatenate([shared, xp.full(flat.size - whole, flat[-width:].mean())])
