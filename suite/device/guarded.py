"""Device arrays with a guard behind them, so that a write just past the end is seen even where it hits free memory.

CUDA reports an access outside of its allocations only where nothing is mapped, and CuPy's pool maps more than it
hands out. There is no guard in front: it would move the array off the boundary that an allocation begins on.
"""

from __future__ import annotations

from dataclasses import dataclass

import cupy
import numpy as np
from peakgate.case import Array, Buffer

GUARD_BYTES = 4096
"""As far as a block of 1024 threads misses by one float each."""

_FILL = 0xA5


@dataclass(frozen=True, slots=True)
class GuardedArray:
    """A buffer's array and the bytes behind it; ``position`` is the argument's, for the message."""

    position: int
    array: Array
    guard: Array

    def damage(self) -> str | None:
        """What a kernel wrote past the end, in words; None when it kept to the array. Waits for the device."""
        hit = np.flatnonzero(cupy.asnumpy(self.guard) != _FILL)
        if not hit.size:
            return None
        return f"wrote past the end of argument {self.position}, at bytes {hit[0] + 1} to {hit[-1] + 1} behind it"


def guarded_array(position: int, buffer: Buffer) -> GuardedArray:
    """An uninitialized array of the buffer's shape and type with an untouched guard behind it."""
    memory = cupy.empty(buffer.nbytes + GUARD_BYTES, np.uint8)
    inside, guard = memory[: buffer.nbytes], memory[buffer.nbytes :]
    guard.fill(_FILL)
    return GuardedArray(position, inside.view(buffer.dtype).reshape(buffer.shape), guard)
