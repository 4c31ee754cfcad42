"""Input data that is random enough to betray a wrong index and the same on every device.

A value depends on its position and the seed alone (a counter-based generator), so the emulator and the GPU start
from equal bits without copying anything between machines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peakgate.case import Array, Buffer, Case, Role
from peakgate.common.errors import PeakgateError
from peakgate.common.places import defined_at, described, raised_at

_MANTISSA_BITS = {"float16": 11, "float32": 24, "float64": 32}
"""How many hash bits become the value; no more than the mantissa holds, so that the conversion is exact."""


_PARTS = {"complex64": "float32", "complex128": "float64"}


def input_array(xp: Any, buffer: Buffer, seed: int) -> Array:
    """The input that a buffer describes, in module ``xp``, the same on every device.

    PeakgateError when a function of the family, or a saved array, gives another shape, or values that the type does
    not hold.
    """
    data = buffer.data
    if isinstance(data, Path):
        return xp.asarray(saved_array(data, buffer.shape, buffer.dtype)).astype(buffer.dtype)
    if data is None:
        return random_array(xp, buffer.shape, buffer.dtype, seed)
    if callable(data):
        try:
            made = xp.asarray(data(xp, buffer.shape))
        except MemoryError:
            raise
        except Exception as error:
            place = raised_at(error, Path(defined_at(data)).parent) or defined_at(data)
            raise PeakgateError(f"input data: the function fails ({place}): {described(error)}") from error
        if made.shape != buffer.shape or not np.can_cast(made.dtype, buffer.dtype, "same_kind"):
            raise PeakgateError(
                f"input data: the function gives {made.dtype} {made.shape}, expected {buffer.dtype} {buffer.shape}"
            )
        return made.astype(buffer.dtype)
    if isinstance(data, tuple):
        return _between(xp, buffer, seed, *data)
    return xp.full(buffer.shape, data, dtype=buffer.dtype)


def inputs_of(xp: Any, case: Case, seed: int = 0) -> list[Array]:
    """What a case's reference is called with: its IN and INOUT buffers, then the data of its constants."""
    constants = [buffer for _, buffer in case.stage.constants]
    given = [
        input_array(xp, argument, position + seed)
        for position, argument in enumerate(case.arguments)
        if isinstance(argument, Buffer) and argument.role in (Role.IN, Role.INOUT)
    ]
    return given + [input_array(xp, buffer, at) for at, buffer in enumerate(constants, len(case.arguments))]


def saved_array(path: Path, shape: Sequence[int], dtype: str) -> np.ndarray[Any, Any]:
    """An array that numpy.save wrote; PeakgateError names the file where it is none of this shape and kind of type."""
    try:
        saved = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        said = " ".join(str(error).split())
        raise PeakgateError(f"{path}: expected an array in numpy.save's format ({said}); write it again") from None
    if not isinstance(saved, np.ndarray):
        raise PeakgateError(f"{path}: holds several arrays, expected one; write it with numpy.save")
    if saved.shape != tuple(shape) or not np.can_cast(saved.dtype, dtype, "same_kind"):
        raise PeakgateError(
            f"{path}: holds {saved.dtype} {saved.shape}, expected {dtype} {tuple(shape)}; write it again"
        )
    return saved


def _between(xp: Any, buffer: Buffer, seed: int, low: float, high: float) -> Array:
    """Random values in [low, high)."""
    kind = np.dtype(buffer.dtype).kind
    if not low < high:
        raise PeakgateError(f"input data: the range ({low}, {high}) is empty; expected (low, high) with low below high")
    if kind in "iu":
        bits = random_array(xp, buffer.shape, "uint32", seed)
        return (bits.astype("int64") % (int(high) - int(low)) + int(low)).astype(buffer.dtype)
    if kind == "c":
        raise PeakgateError(f"input data: {buffer.dtype} has no order, so no range; give a function data(xp, shape)")
    unit = (random_array(xp, buffer.shape, buffer.dtype, seed).astype("float64") + 1.0) / 2.0
    return xp.minimum(low + unit * (high - low), np.nextafter(np.dtype(buffer.dtype).type(high), -np.inf)).astype(
        buffer.dtype
    )


def seed_offset(seed: int) -> int:
    """What a seed adds to every index, modulo 2**32."""
    return (seed * 0x9E3779B9) & 0xFFFFFFFF


def kept_bits(dtype: str) -> int | None:
    """How many bits of the hash become a value of a real type; None for a type that takes them whole."""
    return _MANTISSA_BITS.get(dtype)


def random_array(xp: Any, shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Fill an array of module ``xp`` with values in [-1, 1) for float types, whole-range bits for integers.

    The bits come from a 32-bit finaliser (two multiply-xorshift rounds, constants by Chris Wellons' "lowbias32"
    search) over the element's index, a bijection: no two elements of a uint32 array are equal.
    """
    if np.dtype(dtype).kind == "c":
        parts = random_array(xp, (*shape, 2), _PARTS[np.dtype(dtype).name], seed)
        return parts.view(dtype).reshape(shape)
    count = math.prod(shape)
    bits = xp.arange(count, dtype=np.uint32)
    bits += np.uint32(seed_offset(seed))
    bits ^= bits >> np.uint32(16)
    bits *= np.uint32(0x7FEB352D)
    bits ^= bits >> np.uint32(15)
    bits *= np.uint32(0x846CA68B)
    bits ^= bits >> np.uint32(16)
    if np.dtype(dtype).kind in "iu":
        return bits.astype(dtype).reshape(shape)
    if dtype not in _MANTISSA_BITS:
        raise PeakgateError(
            f"input data of type {dtype!r}: expected an integer type or one of {sorted(_MANTISSA_BITS)}"
        )
    kept = _MANTISSA_BITS[dtype]
    if kept < 32:
        bits >>= np.uint32(32 - kept)
    values = bits.astype(dtype)
    del bits
    values *= np.dtype(dtype).type(2.0 ** (1 - kept))
    values -= np.dtype(dtype).type(1.0)
    return values.reshape(shape)
