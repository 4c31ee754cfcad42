"""Patterns of input data that reveal errors which uniform random numbers hide.

Mixed magnitudes, cancellation, ties, large numbers, limits. A pattern replaces the random data of an input without data
(``data=None``) or with a range, within that range. It is generated on the host, for small problems.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from operator import attrgetter
from typing import Any

import numpy as np

from peakgate.measure.data import COMPLEX_PARTS, input_array, mixed, random_array, random_bits
from peakgate.measure.refill import renewable
from peakgate.spec import dtypes
from peakgate.spec.case import Array, Buffer, Case, Data, Role

PATTERNS = ("sorted", "alike", "equal", "mixed", "cancelling", "powers", "large")
"""For real inputs: rows and columns of mixed magnitude, up to 16, and if outputs are real a few numbers near 100;
neighbours that nearly cancel; powers of two up to 1 and zeros of both signs, so that many are equal, also in runs, the
first of zeros, and numbers that are nearly zero; and, if outputs are real, rows of numbers up to 256, to thousands or
far more, some of one sign. For integers: all bit lengths; neighbours that cancel; powers of two and zeros; the limits.
For a range: numbers closer and closer to zero, if it contains zero; its ends and a few numbers between, instead of
powers; and numbers near one end, for the next input near the other, instead of large ones.

All numbers of one sign, large and alike, positive if there are such: a minimum or maximum of all is none of a kernel's
initial values, and the squares of the differences are lost in the sum of squares. All numbers equal and not zero,
negative if there are such: all are counted in one place, and none differs. Beside the powers, and in a range, are the
numbers next to a power, whose logarithm is rounded to that of the power; whole numbers and halves between them, which
show how a kernel rounds; and the numbers that its source names, of both signs, and their neighbours. Sorted rows, every
second descending, the same in all inputs of one type and shape, except for the last of half of the rows, which is
smaller or larger: what is found early or compared in part is wrong."""

_ALIKE_PATTERNS = ("sorted", "alike", "equal")

_OTHER_PART = 1 << 16
"""Added to the seed for the imaginary part."""

_OTHER_INPUTS = 1_000_003
"""Added to the seeds for other inputs: more than the seeds of one case differ by."""

_SEGMENT, _ROWS_ALIKE = 61, 8
"""Elements of a one-dimensional input that are treated as a row, a prime so that rows end inside a kernel's tiles, and
the most consecutive rows that are alike."""

_ZEROS = 4
"""Zeros of each sign beside seven powers of two of each: so many that a few given elements of a tile are all zero."""

_NEARLY_ZERO = 2.0**-60
"""Smaller than what kernels take for zero, though its square is normal in float32; in half precision it is zero."""

_LONGEST_RUN = 32
"""The longest run in a real range: half of the neighbours that bound an element's error (``judge.magnitudes``)."""

_LOUD = 4
"""Exponent of the rows of largest magnitude: their exponentials do not overflow, and steps between rows are large."""

_OUTLIER = 100.0
"""In float32 its exponential overflows, and that of its negative is nearly zero."""

_MODERATE = 1024.0
"""From numbers of mixed magnitude, results up to this, and down to its inverse, are finite in float32 too, unless the
steps on the way are badly chosen: exponentials without their maximum. In long products few are larger than 1."""

_QUIETEST_OF_A_RANGE = 10
"""With a number smaller by 2**-14 (this plus the largest exponent) ``1 - cos(x)`` keeps half of float64's digits."""

_LEAST_SCALE = 2.0**-24
"""A scale in place of zero: with it numbers are still normal in float32."""

_ALIKE, _LIKENESS = 0.7, 2.0**-11
"""Where numbers that are alike lie between zero and the largest: at no power of two, for which sums would be exact. And
their relative distances, whose squares are as small as a rounding in float32."""

_EQUAL, _EQUAL_BITS = (7 / 8, 3 / 4, 5 / 8), 3
"""Where the equal numbers of three inputs lie, and their binary digits if a range has such a number: few, so that sums
of a million products are exact in every order. Otherwise each term would be rounded in the same direction."""

_SMALL = (-16.0, 16.0)
"""The range of real inputs that may be quantized to integers."""

_LARGE = 2.0**31
"""Larger than numbers used as infinity in many kernels (1e4, 1e6, 1e9); sums of fourth powers still fit in float32."""

_LARGEST_POWER = 8.0
"""Beside it, in float32, a logarithm is rounded to a whole number; sums in which it occurs are moderate."""

_FURTHER = (1.0, 1 / 6, 1 / 2, 5 / 6)
"""How far rows of larger numbers reach in turn, from 256 to the largest ones on a logarithmic scale: in float32 to
2**31, 3649, 2**19.5 and 2**27. Only the shorter of them have fractions."""

_BESIDE = 2.0**-6
"""The relative distance to a named number at which another expression of a real kernel may already apply."""

_ENOUGH_ELEMENTS, _ENOUGH_ROWS, _FEWEST_ROWS = 1000, 16, 4
"""The least elements of a one-dimensional input for a pattern; the least rows of another, of twice as many, for all
patterns and for one of them: large numbers are of four kinds."""


@dataclass(frozen=True, slots=True)
class Named:
    """Positive numbers that a kernel may treat specially: those for real inputs, and those for integers."""

    reals: tuple[float, ...] = ()
    integers: tuple[float, ...] = ()


NOTHING_NAMED = Named()


@dataclass(frozen=True, slots=True)
class Varied:
    """A build's problems, some of them with patterns, and by the ids of those the same problems without."""

    problems: tuple[Case, ...]
    plain: Mapping[str, Case]


def varied(problems: Sequence[Case], named: Named = NOTHING_NAMED) -> Varied:
    """A build's problems: the largest ones each with another pattern, and at the end one with every pattern.

    That one is the smallest problem that is large enough for all patterns, else the largest; so each pattern is tried
    at two sizes, with few more problems than there are anyway. In the one with every pattern, large numbers of an input
    meet small ones of the next. Problems without an open input, or with saved results, stay as they are. ``named``
    numbers are among the powers, and in a range.
    """
    computed = (each for each in problems if not isinstance(each.reference, tuple))
    free = sorted((each for each in computed if any(map(_open, each.inputs))), key=_size)
    every = next(filter(_enough, free), free[-1] if free else None)
    left, filled, plain = list(reversed(PATTERNS)), dict[int, Case](), dict[str, Case]()
    for problem in reversed(free):
        if problem is every or not _enough(problem, _FEWEST_ROWS):
            continue
        pattern = next((each for each in left if _filled(problem, each, named) is not problem), None)
        if pattern:
            left.remove(pattern)
            filled[id(problem)] = each = _filled(problem, pattern, named)
            plain[each.id] = problem
    with_each = (_filled(every, pattern, named, apart=True) for pattern in PATTERNS) if every is not None else ()
    last = (each for each in with_each if each is not every)
    return Varied((*(filled.get(id(problem), problem) for problem in problems), *last), plain)


_size = attrgetter("buffer_bytes")


def _enough(problem: Case, rows: int = _ENOUGH_ROWS) -> bool:
    """Whether some input is large enough for a pattern, which spans several rows."""
    return any(
        shape[0] >= _ENOUGH_ELEMENTS
        if len(shape) == 1
        else math.prod(shape) >= 2 * _ENOUGH_ELEMENTS and math.prod(shape[:-1]) >= rows
        for shape in (buffer.shape for buffer in problem.inputs)
    )


def _open(buffer: Buffer) -> bool:
    return buffer.data is None or (isinstance(buffer.data, tuple) and buffer.data[0] < buffer.data[1])


def _filled(case: Case, pattern: str, named: Named, *, apart: bool = False) -> Case:
    """The case with this pattern in its open inputs; the same object if none of them can have it.

    With integer outputs, real inputs without a range get no large numbers: they may be quantized or used as an index.
    """
    integers = not all(dtypes.limits(buffer.dtype).unit_roundoff for buffer in case.outputs)
    arguments = list(case.arguments)
    filled, alike = 0, dict[tuple[Any, ...], int]()
    for at, each in enumerate(case.arguments):
        if not isinstance(each, Buffer) or each.role not in (Role.IN, Role.INOUT) or not _open(each):
            continue
        given, seed, known = each.data, at, named if pattern == "powers" else NOTHING_NAMED
        if integers and given is None and dtypes.limits(each.dtype).unit_roundoff:
            if pattern == "large":
                continue
            given = _SMALL if pattern in ("alike", "equal", "mixed") else None
            known = Named(tuple(number for number in known.reals if number <= _SMALL[1]))
        if pattern == "sorted":
            seed = alike.setdefault((each.dtype, each.shape, given), at)
        in_turn = filled % 2 > 0 and (apart or isinstance(given, tuple))
        data = of_type(pattern, each.dtype, given, seed, in_turn=in_turn, other=seed != at, named=known)
        if data:
            arguments[at] = replace(each, data=data)
            filled += 1
    if not filled:
        return case
    reference = case.reference
    if isinstance(reference, Case):  # another kernel on the same arguments
        reference = replace(reference, arguments=tuple(arguments))
    return replace(case, arguments=tuple(arguments), reference=reference, variant=f"{case.variant}{pattern}")


_Make = Callable[[tuple[int, ...], int], np.ndarray[Any, Any]]

_FewNumbers = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], int]
"""A few numbers, those of which runs are, and the longest run, 0 for any length."""


@dataclass(frozen=True, slots=True)
class Patterned:
    """A data function with a pattern, in the range ``between`` if the author gave one."""

    make: _Make
    dtype: str
    seed: int
    between: tuple[float, float] | None
    pattern: str

    @property
    def alike(self) -> bool:
        """Whether neighbours are nearly equal numbers of a range."""
        return self.between is not None and self.pattern in _ALIKE_PATTERNS

    def __call__(self, xp: Any, shape: tuple[int, ...]) -> Array:
        values = self.make(shape, self.seed)
        if self.dtype == dtypes.SCALE:  # without sign or zero
            values = np.maximum(np.abs(values), _LEAST_SCALE)
        complex_type = self.dtype in COMPLEX_PARTS
        return xp.asarray(values + 1j * self.make(shape, self.seed + _OTHER_PART) if complex_type else values)


def redrawn(xp: Any, case: Case, seed: int) -> list[Array] | None:
    """A case's IN and INOUT buffers with other elements of the same patterns and ranges, the others as they are.

    None if no buffer may be redrawn, as with saved results, and for seed 0, the case's own.
    """
    if not seed or isinstance(case.reference, tuple) or not any(map(_redrawable, case.inputs)):
        return None
    found = []
    for position, each in enumerate(case.arguments):
        if not isinstance(each, Buffer) or each.role not in (Role.IN, Role.INOUT):
            continue
        if isinstance(each.data, Patterned):
            other = replace(each, data=replace(each.data, seed=each.data.seed + _OTHER_INPUTS * seed))
            found.append(input_array(xp, other, position))
        else:
            found.append(input_array(xp, each, position + _OTHER_INPUTS * seed * _redrawable(each)))
    return found


def _redrawable(buffer: Buffer) -> bool:
    return renewable(buffer) or isinstance(buffer.data, Patterned)


def largest_without_overflow(case: Case) -> float:
    """The size up to which, and down to its inverse, results may not overflow on the way, in float32.

    It is infinite for numbers that the author named, and zero if an input has all numbers of its type.
    """
    limits = [math.inf]
    for buffer in case.inputs:
        if buffer.data is None or (isinstance(buffer.data, Patterned) and buffer.data.between is None):
            mixed = buffer.data is not None and buffer.data.pattern == "mixed"
            limits.append(_MODERATE if mixed and dtypes.limits(buffer.dtype).unit_roundoff else 0.0)
    return min(limits)


@cache
def of_type(
    pattern: str,
    dtype: str,
    given: Data,
    seed: int,
    *,
    in_turn: bool = False,
    other: bool = False,
    named: Named = NOTHING_NAMED,
) -> Data:
    """A data function with a pattern for one argument, None if its range has none; cached, for equal arguments.

    ``given`` is the argument's range ``(low, high)``; anything else stands for all numbers of the type. Where numbers
    are large, those of an input ``in_turn`` are near the other end of the range, or large in other rows. ``other`` is
    an input that equals one before it in nearly all elements, where the pattern is sorted.
    """
    real = dtypes.limits(dtype).kind in ("float", "complex")
    between = given if isinstance(given, tuple) else None
    make: _Make
    if pattern in ("alike", "equal"):
        first, last, _ = _bounds(dtype, *(between or _ends_of_type(dtype)))
        positive = [(max(first, 0), last)] if last > max(first, 0) else []
        negative = [(min(last, 0), first)] if first < min(last, 0) else []
        if not positive + negative:
            return None
        if pattern == "alike":
            make = partial(_alike, dtype, *(positive + negative)[0])
        else:
            make = partial(_equal, dtype, *(negative + positive)[0])
    elif pattern == "sorted":
        make = partial(_sorted, dtype, between, other=other)
    elif pattern == "powers":
        make = partial(_few, dtype, between, _special(dtype, between, named))
    elif between is None:
        if real and pattern == "large":
            make = partial(_large, dtype, in_turn=in_turn)
        else:
            make = partial((_REALS if real else _INTEGERS)[pattern], dtype)
    elif pattern == "large":
        make = partial(_near_an_end, dtype, *between, low_end=in_turn)
    elif pattern == "mixed" and real and between[0] <= 0 < between[1]:
        make = partial(_near_zero, dtype, *between)
    else:
        return None

    return Patterned(make, dtype, seed, between, pattern)


def _bounds(dtype: str, low: float, high: float) -> tuple[float, float, np.dtype[Any]]:
    """The first and last number of a type in [low, high), and the NumPy type of such values."""
    if dtypes.limits(dtype).kind == "float":
        return low, dtypes.below(dtype, high), np.dtype("float64")
    return int(low), int(high) - 1, dtypes.value_type(dtype)


def _near_zero(dtype: str, low: float, high: float, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Numbers of mixed magnitude in a range that contains zero, none too small for a float64 reference."""
    sizes = _mixed(dtype, shape, seed, _QUIETEST_OF_A_RANGE) / 2.0**_LOUD
    first, last, _ = _bounds(dtype, low, high)
    values: np.ndarray[Any, Any] = np.abs(sizes) * np.where(sizes < 0, first, last)
    return values


def _near_an_end(
    dtype: str, low: float, high: float, shape: tuple[int, ...], seed: int, *, low_end: bool
) -> np.ndarray[Any, Any]:
    """Numbers in the quarter of a range at one of its ends."""
    first, last, kind = _bounds(dtype, low, high)
    away = (np.abs(_uniform(shape, seed)) * ((last - first) / 4)).astype(kind)
    values: np.ndarray[Any, Any] = kind.type(first) + away if low_end else kind.type(last) - away
    return values


def _ends_of_type(dtype: str) -> tuple[float, float]:
    """The range of an input without one: of large numbers, and of numbers that are all alike."""
    held = dtypes.limits(dtype)
    if held.kind in ("float", "complex"):
        largest = min(_LARGE, max(held.largest / 4, min(held.largest, 512.0)))
        return -largest, largest
    return int(held.lowest), _largest(dtype)


def _alike(dtype: str, start: float, end: float, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Numbers next to each other, nearer to ``end`` than to ``start``; in a short type a few different ones."""
    held = dtypes.limits(dtype)
    values = (start + _ALIKE * (end - start)) * (1 + max(_LIKENESS, 4 * held.unit_roundoff) * _uniform(shape, seed))
    values = np.clip(values, min(start, end), max(start, end))
    return values if held.kind in ("float", "complex") else values.astype(dtypes.value_type(dtype))


def _equal(dtype: str, start: float, end: float, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """One number between ``start`` and ``end`` in all elements."""
    number = start + _EQUAL[seed % 3] * (end - start)
    if dtypes.limits(dtype).kind not in ("float", "complex"):
        return np.full(shape, round(number), dtypes.value_type(dtype))
    mantissa, exponent = math.frexp(number)
    digits = range(_EQUAL_BITS, sys.float_info.mant_dig + 1)
    shortened = (math.ldexp(round(math.ldexp(mantissa, each)), exponent - each) for each in digits)
    return np.full(shape, next(each for each in shortened if min(start, end) <= each <= max(start, end)))


def _sorted(
    dtype: str, between: tuple[float, float] | None, shape: tuple[int, ...], seed: int, *, other: bool
) -> np.ndarray[Any, Any]:
    """Random numbers in ascending and descending rows.

    In an ``other`` input half of the rows of either kind end with their first: they are less or greater by the last.
    """
    part = COMPLEX_PARTS.get(dtype, dtype)
    values = dtypes.decoded(np, input_array(np, Buffer(Role.IN, shape, part, between), seed), part)
    rows = np.sort(values, axis=-1).reshape(-1, shape[-1])
    rows[1::2] = rows[1::2, ::-1]
    if other:
        rows[::4, -1:], rows[3::4, -1:] = rows[::4, :1], rows[3::4, :1]
    return rows.reshape(shape)


def _few(
    dtype: str,
    between: tuple[float, float] | None,
    special: Sequence[float],
    shape: tuple[int, ...],
    seed: int,
) -> np.ndarray[Any, Any]:
    """A few numbers, of which many elements are equal, and special ones for at most half of the elements."""
    real = dtypes.limits(dtype).kind in ("float", "complex")
    few, runs, longest = (
        _ends(dtype, *between) if between else _powers_of_reals() if real else _powers_of_integers(dtype)
    )
    each = np.concatenate([np.tile(few, math.ceil(len(special) / few.size) or 1), np.array(special, few.dtype)])
    return _drawn(each, shape, seed, runs, longest)


def _special(dtype: str, between: tuple[float, float] | None, named: Named) -> tuple[float, ...]:
    """Numbers at which a kernel may be wrong alone, as far as the type or the range holds them.

    Named ones of both signs and their neighbours, in a range also at their distance from its ends; for reals halves
    between integers, and neighbours of powers; for integers the largest one of nines.
    """
    held = dtypes.limits(dtype)
    real = held.kind in ("float", "complex")
    first, last = (held.lowest, held.largest) if real else _ends_of_type(dtype)
    if between:
        first, last = _bounds(dtype, *between)[:2]
    if real:
        numbers = named.reals
        near = [number * (1 + beside) for number in numbers for beside in (0.0, _BESIDE, -_BESIDE)]
        near += _beside_powers(dtype, (max(abs(first), abs(last)) or 1.0) if between else _LARGEST_POWER)
        others = _halves(first / 2 + last / 2)
    else:
        numbers = named.integers
        near = [number + beside for number in numbers for beside in (0, 1, -1)]
        others = [10 ** (len(str(int(last))) - 1) - 1]
    if between:
        others += [number for each in numbers for number in (first + each, last - each)]
    found = dict.fromkeys([*(sign * number for number in near for sign in (1, -1)), *others])
    return tuple(number for number in found if first <= number <= last)


def _halves(middle: float) -> list[float]:
    """Numbers halfway between two integers, above even and odd ones, and whole numbers, near the middle and zero."""
    return [whole + beside for whole in (math.floor(middle), 0) for beside in (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5)]


def _beside_powers(dtype: str, largest: float) -> list[float]:
    """The numbers of a type next to powers of two: to 1 and the two below it, and to the last one up to ``largest``."""
    roundoff = dtypes.limits(dtype).unit_roundoff
    powers = (0.25, 0.5, 1.0, 2.0 ** math.floor(math.log2(largest)))
    return [power * (1 + beside) for power in powers for beside in (-roundoff, 2 * roundoff)]


def _ends(dtype: str, low: float, high: float) -> _FewNumbers:
    """The ends of a range and a few numbers between them; 1 and -1 if it has them."""
    first, last, kind = _bounds(dtype, low, high)
    if kind.kind == "f":
        numbers = [
            first,
            last,
            *([0.0, -0.0] if first < 0 < last else []),
            *(one for one in (-1.0, 1.0) if first < one < last),
            *(low + (last - low) * at / 8 for at in range(1, 7)),
        ]
        runs = [0.0 if first < 0 < last else first, *numbers]
        return np.array(numbers, kind), np.array(runs, kind), _LONGEST_RUN
    few = np.array([first, last, (first + last) // 2, min(first + 1, last)], kind)
    return few, few, 0


def _powers_of_reals() -> _FewNumbers:
    """Powers of two up to 1, zeros and numbers that are nearly zero, of both signs."""
    sizes = 0.5 ** np.arange(7)
    few = np.concatenate([sizes, -sizes, [0.0, -0.0] * _ZEROS])
    return np.append(few, [_NEARLY_ZERO, -_NEARLY_ZERO]), np.concatenate([[0.0, 1.0, -0.0], few]), 0


def _powers_of_integers(dtype: str) -> _FewNumbers:
    """Powers of two, for signed integers of both signs, and zero."""
    kind, held = dtypes.value_type(dtype), dtypes.limits(dtype)
    exponents = range(8 * kind.itemsize)
    numbers = [0, *(sign << each for each in exponents for sign in (1, -1))]
    few = np.array([each for each in numbers if int(held.lowest) <= each <= _largest(dtype)], kind)  # first 0
    return few, few, 0


def _drawn(
    few: np.ndarray[Any, Any],
    shape: tuple[int, ...],
    seed: int,
    runs: np.ndarray[Any, Any] | None = None,
    longest: int = 0,
) -> np.ndarray[Any, Any]:
    """Elements drawn from a few values; every second block of rows repeats one of ``runs``, which are usually the few.

    The first column is in every second run of a row, the last one not in every fourth; such numbers beside a run are no
    larger than runs are. With ``longest``, runs of equal values have at most that length, except for the first, beside
    which there are none: the bounds of numbers that are alone among zeros are small. A one-dimensional input is treated
    as rows of _SEGMENT in up to eight blocks.
    """
    values: np.ndarray[Any, Any] = few[random_bits(np, math.prod(shape), seed) % few.size].reshape(shape)
    one = len(shape) == 1
    rows = values[: values.size // _SEGMENT * _SEGMENT].reshape(-1, _SEGMENT) if one else values.reshape(-1, shape[-1])
    alike = max(len(rows) // _ROWS_ALIKE, 1)
    alike = alike if one else min(alike, _ROWS_ALIKE)
    columns = np.arange(rows.shape[1])
    runs = few if runs is None else runs
    for turn, first in enumerate(range(alike, len(rows), 2 * alike) if rows.size else ()):
        in_run = columns // (longest if longest and turn else columns.size) % 2 == 0
        repeated = rows[first : first + alike]
        drawn = np.clip(repeated, runs.min(), runs.max())
        repeated[:, in_run] = runs[turn % runs.size]
        if turn or not longest:
            repeated[1 - turn % 2 :: 2, 0] = drawn[1 - turn % 2 :: 2, 0]
            repeated[turn % 2 + 2 :: 4, -1] = drawn[turn % 2 + 2 :: 4, -1]
    return values


def _uniform(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    return _kept_uniform(shape, seed).copy()


@lru_cache(maxsize=8)
def _kept_uniform(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Random numbers that several patterns of one problem begin with."""
    values: np.ndarray[Any, Any] = random_array(np, shape, "float64", seed)
    return values


def _mixed(_dtype: str, shape: tuple[int, ...], seed: int, quietest: int = 24) -> np.ndarray[Any, Any]:
    values = _uniform(shape, seed)
    at = np.indices(shape[-2:], sparse=True)
    rows, columns = at if len(at) > 1 else (at[0] // _SEGMENT, at[0])
    small = np.array([0, 2, 4, -_LOUD, 8, 12, quietest])
    values *= 2.0 ** -(small[rows % small.size] + columns % 5.0)
    return values


def _with_outliers(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Numbers of mixed magnitude, and in every seventh row one that is far larger, of either sign in turn."""
    values = _mixed(dtype, shape, seed)
    rows = values[: values.size // _SEGMENT * _SEGMENT].reshape(-1, _SEGMENT) if len(shape) == 1 else values
    loudest = rows.reshape(-1, rows.shape[-1])[3::7]
    turn = np.arange(len(loudest))
    beside = loudest[turn, turn % loudest.shape[1]] / 8  # differs by seed
    loudest[turn, turn % loudest.shape[1]] = (_OUTLIER + beside) * np.where(turn % 2, -1, 1)
    return values


def _cancelling(_dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    flat = _uniform(shape, seed).reshape(-1)
    pairs = flat.size // 2
    flat[1 : 2 * pairs : 2] = -flat[: 2 * pairs : 2] * (1 - 2.0**-6)
    return flat.reshape(shape)


def _large(dtype: str, shape: tuple[int, ...], seed: int, *, in_turn: bool) -> np.ndarray[Any, Any]:
    """Numbers whose exponential overflows in float32 and whose square overflows in float16.

    Rows are of four kinds, up to four of a kind together: up to 256 in magnitude; larger by ``_FURTHER``; only negative
    and only positive ones from half of the largest: they exceed the initial values that kernels use for a minimum or
    maximum. An input ``in_turn`` has the next kind in each row.
    """
    values = _uniform(shape, seed)
    at = np.indices(shape[-2:], sparse=True)
    rows, count = (at[0], shape[-2]) if len(at) > 1 else (at[0] // _SEGMENT, shape[-1] // _SEGMENT)
    alike, larger = max(min(count // 4, 4), 1), _ends_of_type(dtype)[1]
    kind = (rows // alike + in_turn) % 4
    further = 256.0 * (larger / 256.0) ** np.array(_FURTHER)[(rows + rows // (4 * alike)) % len(_FURTHER)]
    both_signs = np.array([True, True, False, False])[kind]
    values = np.where(both_signs, values, (np.abs(values) + 1) / 2)
    values *= np.where(kind == 1, further, np.array([256.0, larger, -larger, larger])[kind])
    return values


def _lengths(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Integers with uniformly distributed bit lengths."""
    kind = dtypes.value_type(dtype)
    if kind.kind == "b":
        return _limits(dtype, shape, seed)
    values = random_array(np, shape, kind.name, seed)
    shifts = mixed(random_bits(np, math.prod(shape), seed) + np.uint32(3)).reshape(shape) % (8 * kind.itemsize)
    held = dtypes.limits(dtype)
    found: np.ndarray[Any, Any] = values >> shifts.astype(kind)
    return found if dtype not in dtypes.PACKED else np.clip(found, int(held.lowest), int(held.largest))


def _opposites(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Pairs of neighbours whose sum is zero, modulo the range for unsigned integers."""
    flat = _lengths(dtype, shape, seed).reshape(-1)
    if flat.dtype.kind != "b":
        pairs, held = flat.size // 2, dtypes.limits(dtype)
        opposite = np.subtract(flat.dtype.type(0), flat[: 2 * pairs : 2])
        flat[1 : 2 * pairs : 2] = (
            np.clip(opposite, int(held.lowest), int(held.largest)) if dtype in dtypes.PACKED else opposite
        )
    return flat.reshape(shape)


def _limits(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Integers at and next to the limits of their type, and 0 and 1."""
    lowest, largest = int(dtypes.limits(dtype).lowest), _largest(dtype)
    special = np.array([lowest, largest, lowest + 1, largest - 1, 0, 1], dtypes.value_type(dtype))
    return _drawn(special, shape, seed)


def _largest(dtype: str) -> int:
    """The largest integer of a type, exact also for 64 bits, unlike ``dtypes.limits``."""
    kind = dtypes.value_type(dtype)
    return int(np.iinfo(kind).max) if kind.itemsize == 8 else int(dtypes.limits(dtype).largest)


_MakeOfType = Callable[[str, tuple[int, ...], int], np.ndarray[Any, Any]]
_REALS: dict[str, _MakeOfType] = {"mixed": _with_outliers, "cancelling": _cancelling}
_INTEGERS: dict[str, _MakeOfType] = {"mixed": _lengths, "cancelling": _opposites, "large": _limits}
