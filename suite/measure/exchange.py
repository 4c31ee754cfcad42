"""Other contents for an array of integers, of the same elements: pairs of them change places.

What is an index stays one, and what is unique stays unique, which elements drawn anew would not. NumPy's function says
what must come out, ``device.exchange`` does it on a GPU.
"""

from __future__ import annotations

import numpy as np
from peakgate.core.case import Array
from peakgate.measure.data import mixed
from peakgate.measure.refill import SPARSE_BYTES


def pairs_of(count: int, itemsize: int) -> int:
    """How many pairs change places: an element in every 4 KiB does, but two at least; 0 where there are no two."""
    return max(1, -(-count * itemsize // (2 * SPARSE_BYTES))) if count > 1 else 0


def exchange(target: Array, keys: tuple[int, int]) -> None:
    """Let one element of each pair of equal parts of an array change places, in place; keys are below 2**32.

    Part ``i`` of ``2 * pairs`` goes with part ``i + pairs``; where in its part an element is follows from both keys.
    """
    data = target.reshape(-1)
    pairs = pairs_of(data.size, data.itemsize)
    parts = np.arange(2 * pairs, dtype=np.uint64)
    begins, ends = (
        each * np.uint64(data.size) // np.uint64(max(1, 2 * pairs)) for each in (parts, parts + np.uint64(1))
    )
    first, second = (np.uint32(key) for key in keys)
    bits = mixed(mixed(parts.astype(np.uint32) ^ first) ^ second)
    places = begins + (bits.astype(np.uint64) * (ends - begins) >> np.uint64(32))
    data[places] = data[np.roll(places, pairs)]
