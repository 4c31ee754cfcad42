"""Input data, random enough to betray a wrong index and the same on every device, and where in memory arrays are.

A value depends on its position and the seed alone (a counter-based generator), so the emulator and the GPU start
from equal bits without copying anything between machines.

How a kernel's arrays fall on channels and cache slices makes up to several percent of its time (measured in
lab/placement/placement.csv). One placement a process makes that luck part of the result, and a commit that
allocates one array more or less moves every array behind it. New offsets for every batch of samples average it out.

Patterns show mistakes which uniform random numbers hide: mixed magnitudes, cancellation, limits. Each stands in for
the random data of an input that a family leaves open (``data=None``), and keeps to the same range: reals in [-1, 1),
integers of their whole range. It is made on the host, for small problems.
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

MANTISSA_BITS = {"float16": 11, "float32": 24, "float64": 32}
"""How many hash bits become the value of a real type: no more than its mantissa holds, so the conversion is exact."""

_PARTS = {"complex64": "float32", "complex128": "float64"}

_CHOICES = 256

PATTERNS = ("mixed", "cancelling", "powers")
"""Of reals: rows and columns of mixed magnitude; neighbours that nearly cancel; exact powers of two. Integers are at
and beside their limits in each."""

_ENOUGH_BYTES = 4096


def input_array(xp: Any, buffer: Buffer, seed: int) -> Array:
    """The input that a buffer describes, as it is stored (``core.dtypes``), in module ``xp``, the same everywhere.

    PeakgateError when a function of the family, or a saved array, gives another shape, or values that the type does
    not hold.
    """
    data, dtype = buffer.data, buffer.dtype
    if data is None:
        return random_array(xp, buffer.shape, dtype, seed)
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
        return _between(xp, buffer, seed, *data)
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


def _between(xp: Any, buffer: Buffer, seed: int, low: float, high: float) -> Array:
    """Random values in [low, high)."""
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
        bits = random_array(xp, buffer.shape, "uint32", seed)
        return dtypes.encoded(xp, bits.astype("int64") % (high - low) + low, dtype)
    _refuse_outside(dtype, low, high)
    last = dtypes.below(dtype, high)
    if last < low:
        raise PeakgateError(
            f"input data: no number of {dtype} is in the range ({low}, {high}); give a wider one", Code.DATA
        )
    drawn = random_array(xp, buffer.shape, "float32" if dtype in dtypes.BITS else dtype, seed)
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


def random_array(xp: Any, shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Fill an array of module ``xp`` with values in [-1, 1) for float types, whole-range bits for integers, as stored.

    The bits are ``mixed`` element indices: no two elements of a uint32 array are equal. Of bfloat16 and the 8-bit
    floats there are at most 256 different values.
    """
    if dtype in dtypes.PACKED:
        return random_array(xp, dtypes.storage_shape(shape, dtype), "uint8", seed)
    stored = dtypes.storage(dtype)
    if stored.kind == "c":
        parts = random_array(xp, (*shape, 2), _PARTS[stored.name], seed)
        return parts.view(dtype).reshape(shape)
    count = math.prod(shape)
    bits = xp.arange(count, dtype=np.uint32)
    bits += np.uint32(seed_offset(seed))
    mixed(bits)
    if dtype in dtypes.BITS:
        return xp.take(xp.asarray(_choices(dtype)), bits >> np.uint32(24)).reshape(shape)
    if stored.kind in "iu":
        return bits.astype(dtype).reshape(shape)
    if dtype not in MANTISSA_BITS:
        raise PeakgateError(
            f"input data of type {dtype!r}: expected an integer type or one of {sorted(MANTISSA_BITS)}", Code.TYPE
        )
    kept = MANTISSA_BITS[dtype]
    if kept < 32:
        bits >>= np.uint32(32 - kept)
    values = bits.astype(dtype)
    del bits
    values *= stored.type(2.0 ** (1 - kept))
    values -= stored.type(1.0)
    return values.reshape(shape)


@cache
def _choices(dtype: str) -> np.ndarray[Any, Any]:
    """The stored elements that random ones are drawn from, 256 of them.

    Of bfloat16 the multiples of 1/128 in [-1, 1), of an 8-bit float all its numbers of magnitudes below 1, so that
    their exponents differ.
    """
    if dtype == "bfloat16":
        return np.asarray(dtypes.encoded(np, np.arange(-128, 128) / 128, dtype))
    one = int(dtypes.encoded(np, np.ones(1), dtype)[0])
    magnitudes = np.arange(_CHOICES) % one
    return np.where(np.arange(_CHOICES) < _CHOICES // 2, magnitudes, magnitudes | 0x80).astype("uint8")


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
    free = [
        problem for problem in problems if not isinstance(problem.reference, tuple) and any(map(_open, problem.inputs))
    ]
    enough = [problem for problem in free if problem.buffer_bytes >= _ENOUGH_BYTES]
    size = attrgetter("buffer_bytes")
    chosen = min(enough, key=size, default=None) or max(free, key=size, default=None)
    return [] if chosen is None else [_filled(chosen, pattern) for pattern in patterns]


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
