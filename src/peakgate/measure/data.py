"""Random input data, equal on every device, and random placement of arrays in memory.

A value depends on its position and the seed only (a counter-based generator), so emulator and GPU generate equal bits.
One element in 16 is special, so that ties and limits occur at every size: it equals its neighbour, or is zero or a
limit of its type.

The placement of arrays on memory channels and cache slices changes a kernel's time by up to several percent (see
docs/explanation/decisions.md). With one placement per process that would be part of the result, and a commit that
allocates one array more or less shifts all later ones. New offsets for every batch of samples average it out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from peakgate.base.errors import Code, PeakgateError, defined_at, described, raised_at
from peakgate.spec import dtypes
from peakgate.spec.case import Array, Buffer, Case, Role

PAGE_BYTES = 2 << 20
"""CUDA maps device memory in pages of this size, and begins an allocation at least as large on one."""

SMALL_ALIGNMENT_BYTES = 512
"""A smaller array has the alignment of CuPy's pool."""

COMPLEX_PARTS = {"complex64": "float32", "complex128": "float64"}
"""The type of the parts of a complex number."""

COPIED_BELOW, SPECIAL_BELOW = 8, 16
"""An element of 16 bits or more gets a uniform byte: below the first number the element equals its neighbour, below the
second it is one of the ``specials`` of its type."""

RandomArray = Callable[[tuple[int, ...], str, int], Array]
"""``random_array`` of one array module."""


def input_array(xp: Any, buffer: Buffer, seed: int, random: RandomArray | None = None) -> Array:
    """The input that a buffer describes, as stored elements (``spec.dtypes``), equal on every device.

    ``random(shape, dtype, seed)`` is a faster implementation of ``random_array``. Raises PeakgateError if a function
    of the family or a saved array has another shape, or values outside the type.
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
        except (MemoryError, PeakgateError):  # the latter of another process, which names the function
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
    """The values of an array saved by numpy.save for elements of this shape and type.

    Raises PeakgateError with the file if shape or kind of type differ.
    """
    try:
        saved = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = " ".join(str(error).split())
        again = f"write it again, as {dtypes.value_type(dtype)} for example"
        raise PeakgateError(
            f"{path}: expected an array in numpy.save's format ({reason}); {again}", Code.MALFORMED
        ) from None
    if not isinstance(saved, np.ndarray):
        raise PeakgateError(f"{path}: holds several arrays, expected one; write it with numpy.save", Code.MALFORMED)
    values: np.ndarray[Any, Any] = _values(np, saved, (tuple(shape), dtype), f"{path}: holds")
    return values


def _values(xp: Any, given: Array, wanted: tuple[tuple[int, ...], str], by: str) -> Array:
    """The values of an array for elements of the ``wanted`` shape and type, before rounding to it."""
    shape, dtype = wanted
    values = dtypes.read(xp, given, shape, dtype)
    if values.shape != shape or not np.can_cast(values.dtype, dtypes.value_type(dtype), "same_kind"):
        raise PeakgateError(f"{by} {given.dtype} {given.shape}, expected {dtype} {shape}; write it again", Code.DATA)
    return values


def _refuse_outside(dtype: str, low: float, high: float) -> None:
    """Raise PeakgateError for numbers outside the range of the type."""
    held = dtypes.limits(dtype)
    if held.kind != "complex" and (high > held.largest or low < held.lowest):
        raise PeakgateError(
            f"input data: {low:g} to {high:g} given, expected numbers of {dtype}, {held.lowest:g} to {held.largest:g}",
            Code.DATA,
        )


def _between(xp: Any, buffer: Buffer, seed: int, random: RandomArray, ends: tuple[float, float]) -> Array:
    """Random values in [low, high)."""
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
        # Arithmetic modulo 2**64 is right for both signs.
        values = bits.astype("uint64") % np.uint64(min(high - low, (1 << 64) - 1)) + np.uint64(low % (1 << 64))
        return dtypes.encoded(xp, values if kind == "uint" else values.view("int64"), dtype)
    _refuse_outside(dtype, low, high)
    last = dtypes.below(dtype, high)
    if last < low:
        raise PeakgateError(
            f"input data: no number of {dtype} is in the range ({low}, {high}); give a wider one", Code.DATA
        )
    drawn = random(buffer.shape, "float32" if dtype in dtypes.RAW else dtype, seed)
    unit = (drawn.astype("float64") + 1.0) / 2.0
    return dtypes.encoded(xp, xp.minimum(low + unit * (high - low), last), dtype)


def seed_offset(seed: int) -> int:
    """The offset that a seed adds to every index, modulo 2**32."""
    return (seed * 0x9E3779B9) & 0xFFFFFFFF


def mixed(bits: Array) -> Array:
    """Replace each uint32 by its hash, in place; a bijection. Returns the same array.

    A 32-bit finaliser (two multiply-xorshift rounds, constants by Chris Wellons' "lowbias32" search).
    """
    bits ^= bits >> np.uint32(16)
    bits *= np.uint32(0x7FEB352D)
    bits ^= bits >> np.uint32(15)
    bits *= np.uint32(0x846CA68B)
    bits ^= bits >> np.uint32(16)
    return bits


def random_bits(xp: Any, count: int, seed: int) -> Array:
    """``count`` different uint32: hashed element indices."""
    bits = xp.arange(count, dtype=np.uint32)
    bits += np.uint32(seed_offset(seed))
    return mixed(bits)


def random_array(xp: Any, shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Stored elements of random values in [-1, 1) for float types, and of random bits for integers.

    With 16 bits and more, one element in 32 equals the one before it, and one in 32 is among ``specials``. An 8-bit
    float is drawn from all its numbers with magnitudes below 1, a 4-bit one from all its numbers; a scale
    (``dtypes.SCALE``) is one of eight powers of two up to 1.
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
    """The element for each uint32; a 64-bit element uses the uint32's hash as well."""
    if dtype in ("float16", "bfloat16"):  # float32, truncated to the shorter mantissa: all exponents occur
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
    """Elements of an 8-bit type: any integer or boolean, any float with a magnitude below 1."""
    if dtype not in dtypes.BITS:
        return bits >> np.uint32(31) != 0 if dtype == "bool" else bits.astype(dtype)
    byte = (bits >> np.uint32(24)).astype(np.uint8)
    one = int(dtypes.encoded(np, np.ones(1), dtype)[0])
    if dtype == dtypes.SCALE:
        return np.uint8(one) - byte % np.uint8(8)
    return (byte % np.uint8(128)) % np.uint8(one) | byte & np.uint8(0x80)


@cache
def specials(dtype: str) -> np.ndarray[Any, Any]:
    """Eight stored elements that many kernels treat specially: zeros, and limits or simple fractions."""
    if dtypes.limits(dtype).unit_roundoff:
        values = np.array([0.0, 0.0, -0.0, 0.5, -0.5, 0.25, -0.25, -1.0])
        return np.asarray(dtypes.encoded(np, values, dtype))
    held = np.iinfo(dtype)
    return np.array([0, 0, 1, held.min, held.max, held.min + 1, held.max - 1, held.max // 2 + 1], dtype)


def alignment_bytes(size_bytes: int) -> int:
    """The alignment of an array of this size."""
    return PAGE_BYTES if size_bytes >= PAGE_BYTES else SMALL_ALIGNMENT_BYTES


def random_offsets(sizes_bytes: Sequence[int], room_bytes: int, rng: np.random.Generator) -> list[int] | None:
    """A random offset for each array: random order, random gaps, aligned, without overlap.

    None if the arrays would fill more than half of the room: there would be few placements, and arrays so large are
    spread evenly over all channels anyway.
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
