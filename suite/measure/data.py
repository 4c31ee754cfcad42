"""Input data that is random enough to betray a wrong index and the same on every device.

A value depends on its position and the seed alone (a counter-based generator), so the emulator and the GPU start
from equal bits without copying anything between machines.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from peakgate.case import Array
from peakgate.common.errors import PeakgateError

_MANTISSA_BITS = {"float16": 11, "float32": 24, "float64": 32}
"""How many hash bits become the value; no more than the mantissa holds, so that the conversion is exact."""


def random_array(xp: Any, shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Fill an array of module ``xp`` with values in [-1, 1) for float types, whole-range bits for integers.

    The bits come from a 32-bit finaliser (two multiply-xorshift rounds, constants by Chris Wellons' "lowbias32"
    search) over the element's index, a bijection: no two elements of a uint32 array are equal.
    """
    count = math.prod(shape)
    bits = xp.arange(count, dtype=np.uint32)
    bits += np.uint32((seed * 0x9E3779B9) & 0xFFFFFFFF)
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
