"""Input data, random enough to betray a wrong index and the same on every device, and where in memory arrays are.

A value depends on its position and the seed alone (a counter-based generator), so the emulator and the GPU start
from equal bits without copying anything between machines. One element in 16 is special: equal to its neighbour, zero,
or a limit of its type, so that ties and limits are met at every size.

How a kernel's arrays fall on channels and cache slices makes up to several percent of its time (measured in
lab/placement/placement.csv). One placement a process makes that luck part of the result, and a commit that
allocates one array more or less moves every array behind it. New offsets for every batch of samples average it out.

Patterns show mistakes which uniform random numbers hide: mixed magnitudes, cancellation, ties, large numbers, limits.
Each stands in for the random data of an input that a family leaves open (``data=None``), or gives a range for, which
it keeps to. It is made on the host, for small problems.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from peakgate.core import dtypes
from peakgate.core.case import Array, Buffer, Case, Data, Role
from peakgate.core.errors import Code, PeakgateError, defined_at, described, raised_at

PAGE_BYTES = 2 << 20
"""CUDA maps device memory in pages of this size, and begins an allocation at least as large on one."""

SMALL_ALIGNMENT_BYTES = 512
"""A smaller array begins where CuPy's pool would begin it."""

COMPLEX_PARTS = {"complex64": "float32", "complex128": "float64"}
"""The type of the two parts of a complex number."""

COPIED_BELOW, SPECIAL_BELOW = 8, 16
"""Of 256 equally likely bytes, one for each element of 16 bits and more, those that make it equal to its neighbour,
and those that make it one of the ``specials`` of its type."""

_CHOICES = 256

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

RandomArray = Callable[[tuple[int, ...], str, int], Array]
"""``random_array`` of one array module."""


def input_array(xp: Any, buffer: Buffer, seed: int, random: RandomArray | None = None) -> Array:
    """The input that a buffer describes, as it is stored (``core.dtypes``), in module ``xp``, the same everywhere.

    ``random(shape, dtype, seed)`` is a quicker way to the elements of ``random_array``.
    PeakgateError when a function of the family, or a saved array, gives another shape, or values that the type does
    not hold.
    """
    data, dtype = buffer.data, buffer.dtype
    random = random or partial(random_array, xp)
    if data is None:
        return random(buffer.shape, dtype, seed)
    if isinstance(data, Path):
        return dtypes.encoded(xp, xp.asarray(saved_array(data, buffer.shape, dtype)), dtype)
    if callable(data):
        try:
            made = data(xp, buffer.shape)
            made = made if isinstance(made, np.ndarray) else xp.asarray(made)
        except MemoryError:
            raise
        except Exception as error:
            place = raised_at(error, Path(defined_at(data)).parent) or defined_at(data)
            raise PeakgateError(f"input data: the function fails ({place}): {described(error)}", Code.DATA) from error
        return dtypes.encoded(xp, _values(xp, made, (buffer.shape, dtype), "input data: the function gives"), dtype)
    if isinstance(data, tuple):
        return _between(xp, buffer, seed, random, data)
    if np.isfinite(data):
        _refuse_outside(dtype, data, data)
    return dtypes.encoded(xp, xp.full(buffer.shape, data, "float64" if dtype in dtypes.RAW else dtype), dtype)


def inputs_of(xp: Any, case: Case) -> list[Array]:
    """The arguments of a case's reference: the values of its IN and INOUT buffers, then those of its constants."""
    constants = [buffer for _, buffer in case.stage.constants]
    given = [
        (argument, input_array(xp, argument, position))
        for position, argument in enumerate(case.arguments)
        if isinstance(argument, Buffer) and argument.role in (Role.IN, Role.INOUT)
    ]
    given += [(buffer, input_array(xp, buffer, at)) for at, buffer in enumerate(constants, len(case.arguments))]
    return [dtypes.decoded(xp, array, buffer.dtype) for buffer, array in given]


def saved_array(path: Path, shape: Sequence[int], dtype: str) -> np.ndarray[Any, Any]:
    """The values of an array that numpy.save wrote for elements of this shape and type.

    PeakgateError names the file where it is none of this shape and kind of type.
    """
    try:
        saved = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        said = " ".join(str(error).split())
        again = f"write it again, as {dtypes.value_type(dtype)} say"
        raise PeakgateError(
            f"{path}: expected an array in numpy.save's format ({said}); {again}", Code.MALFORMED
        ) from None
    if not isinstance(saved, np.ndarray):
        raise PeakgateError(f"{path}: holds several arrays, expected one; write it with numpy.save", Code.MALFORMED)
    values: np.ndarray[Any, Any] = _values(np, saved, (tuple(shape), dtype), f"{path}: holds")
    return values


def _values(xp: Any, given: Array, wanted: tuple[tuple[int, ...], str], by: str) -> Array:
    """The values of an array given for elements of the ``wanted`` shape and type, before they are rounded to it."""
    shape, dtype = wanted
    values = dtypes.read(xp, given, shape, dtype)
    if values.shape != shape or not np.can_cast(values.dtype, dtypes.value_type(dtype), "same_kind"):
        raise PeakgateError(f"{by} {given.dtype} {given.shape}, expected {dtype} {shape}; write it again", Code.DATA)
    return values


def _refuse_outside(dtype: str, low: float, high: float) -> None:
    """PeakgateError for numbers beyond those of the type."""
    held = dtypes.limits(dtype)
    if held.kind != "complex" and (high > held.largest or low < held.lowest):
        raise PeakgateError(
            f"input data: {low:g} to {high:g} given, expected numbers of {dtype}, {held.lowest:g} to {held.largest:g}",
            Code.DATA,
        )


def _between(xp: Any, buffer: Buffer, seed: int, random: RandomArray, ends: tuple[float, float]) -> Array:
    """Random values from the first of two numbers up to but not including the second."""
    low, high = ends
    dtype, kind = buffer.dtype, dtypes.limits(buffer.dtype).kind
    if kind in ("int", "uint"):
        low, high = int(low), int(high)
    if not low < high:
        raise PeakgateError(
            f"input data: the range ({low}, {high}) is empty; expected (low, high) with low below high", Code.DATA
        )
    if kind in ("complex", "bool"):
        raise PeakgateError(
            f"input data: a range given for {dtype}, expected real numbers; give a function data(xp, shape)", Code.DATA
        )
    if kind in ("int", "uint"):
        _refuse_outside(dtype, low, high - 1)
        bits = random(buffer.shape, "uint32" if high - low <= 1 << 32 else "uint64", seed)
        # Modulo 2**64, where the sum is right for either sign.
        values = bits.astype("uint64") % np.uint64(min(high - low, (1 << 64) - 1)) + np.uint64(low % (1 << 64))
        return dtypes.encoded(xp, values if kind == "uint" else values.view("int64"), dtype)
    _refuse_outside(dtype, low, high)
    last = dtypes.below(dtype, high)
    if last < low:
        raise PeakgateError(
            f"input data: no number of {dtype} is in the range ({low}, {high}); give a wider one", Code.DATA
        )
    drawn = random(buffer.shape, "float32" if dtype in dtypes.BITS else dtype, seed)
    unit = (drawn.astype("float64") + 1.0) / 2.0
    return dtypes.encoded(xp, xp.minimum(low + unit * (high - low), last), dtype)


def seed_offset(seed: int) -> int:
    """The offset that a seed adds to every index, modulo 2**32."""
    return (seed * 0x9E3779B9) & 0xFFFFFFFF


def mixed(bits: Array) -> Array:
    """The same array with each uint32 replaced by a hash of it, in place: a bijection.

    A 32-bit finaliser (two multiply-xorshift rounds, constants by Chris Wellons' "lowbias32" search).
    """
    bits ^= bits >> np.uint32(16)
    bits *= np.uint32(0x7FEB352D)
    bits ^= bits >> np.uint32(15)
    bits *= np.uint32(0x846CA68B)
    bits ^= bits >> np.uint32(16)
    return bits


def random_bits(xp: Any, count: int, seed: int) -> Array:
    """So many uint32, none equal to another: ``mixed`` element indices."""
    bits = xp.arange(count, dtype=np.uint32)
    bits += np.uint32(seed_offset(seed))
    return mixed(bits)


def random_array(xp: Any, shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Fill an array of module ``xp`` with values in [-1, 1) for float types, whole-range bits for integers, as stored.

    Of types with 16 bits and more one element in 32 is equal to the one before it, and one in 32 is among ``specials``.
    An 8-bit float is one of all its numbers of magnitudes below 1.
    """
    if dtype in dtypes.PACKED:
        return random_array(xp, dtypes.storage_shape(shape, dtype), "uint8", seed)
    if dtype in COMPLEX_PARTS:
        return random_array(xp, (*shape, 2), COMPLEX_PARTS[dtype], seed).view(dtype).reshape(shape)
    bits = random_bits(xp, math.prod(shape), seed)
    if dtypes.storage(dtype).itemsize == 1:
        drawn = _of_a_byte(bits, dtype)
    else:
        byte = mixed(bits + np.uint32(2)) >> np.uint32(24)
        before = mixed(xp.arange(bits.size, dtype=np.uint32) + np.uint32(seed_offset(seed) - 1 & 0xFFFFFFFF))
        drawn = _from_bits(xp, xp.where(byte < COPIED_BELOW, before, bits), dtype)
        chosen = xp.take(xp.asarray(specials(dtype)), byte % np.uint32(SPECIAL_BELOW - COPIED_BELOW))
        drawn = xp.where((byte >= COPIED_BELOW) & (byte < SPECIAL_BELOW), chosen, drawn)
    return drawn.reshape(shape)


def _from_bits(xp: Any, bits: Array, dtype: str) -> Array:
    """The element that each uint32 gives; one of 64 bits takes another 32 from its hash."""
    if dtype in ("float16", "bfloat16"):  # as float32, cut to the shorter mantissa: all exponents occur
        wide = _from_bits(xp, bits, "float32").view(np.uint32)
        if dtype == "bfloat16":
            return (wide >> np.uint32(16)).astype(np.uint16)
        return (wide & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float16)
    if dtype == "float32":
        return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
    stored = dtypes.storage(dtype)
    if stored.itemsize < np.dtype(np.int64).itemsize and stored.kind in "iu":
        return bits.astype(stored)
    words = (bits.astype(np.uint64) << np.uint64(32)) | mixed(bits + np.uint32(1))
    if dtype == "float64":
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    if stored.kind in "iu":
        return words.view(stored)
    raise PeakgateError(f"input data of type {dtype!r}: expected one of {', '.join(dtypes.KNOWN)}", Code.TYPE)


def _of_a_byte(bits: Array, dtype: str) -> Array:
    """Elements of a type of 8 bits: any integer or truth value, any float of a magnitude below 1."""
    if dtype not in dtypes.BITS:
        return bits >> np.uint32(31) != 0 if dtype == "bool" else bits.astype(dtype)
    byte = (bits >> np.uint32(24)).astype(np.uint8)
    one = int(dtypes.encoded(np, np.ones(1), dtype)[0])
    return (byte % np.uint8(128)) % np.uint8(one) | byte & np.uint8(0x80)


@cache
def specials(dtype: str) -> np.ndarray[Any, Any]:
    """Eight elements of a type, as stored, that many kernels treat apart: zeros, and limits or halves."""
    if dtypes.limits(dtype).unit_roundoff:
        values = np.array([0.0, 0.0, -0.0, 0.5, -0.5, 0.25, -0.25, -1.0])
        return np.asarray(dtypes.encoded(np, values, dtype))
    held = np.iinfo(dtype)
    return np.array([0, 0, 1, held.min, held.max, held.min + 1, held.max - 1, held.max // 2 + 1], dtype)


def alignment_bytes(size_bytes: int) -> int:
    """The boundary an array of this size begins on."""
    return PAGE_BYTES if size_bytes >= PAGE_BYTES else SMALL_ALIGNMENT_BYTES


def random_offsets(sizes_bytes: Sequence[int], room_bytes: int, rng: np.random.Generator) -> list[int] | None:
    """An offset for each array: random order, random gaps, aligned, none overlapping another.

    None when they would fill more than half of the room: there would be little choice, and arrays so large are on all
    channels evenly anyway.
    """
    needed = [size + alignment_bytes(size) for size in sizes_bytes]
    if 2 * sum(needed) > room_bytes:
        return None
    order = [int(index) for index in rng.permutation(len(needed))]
    gaps = np.sort(rng.integers(0, room_bytes - sum(needed) + 1, len(needed)))
    packed = accumulate((needed[index] for index in order), initial=0)
    offsets = dict.fromkeys(order, 0)
    for index, before, gap in zip(order, packed, gaps, strict=False):
        unit = alignment_bytes(sizes_bytes[index])
        offsets[index] = -(-(before + int(gap)) // unit) * unit
    return [offsets[index] for index in range(len(needed))]


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
    """The case with this pattern in its open inputs; the very same where none of them takes it.

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
