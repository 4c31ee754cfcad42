"""Where in a large piece of memory a case's arrays are: somewhere else for every batch of samples.

How a kernel's arrays fall on channels and cache slices makes up to several percent of its time (measured in
lab/placement/placement.csv). One placement a process makes that luck part of the result, and a commit that
allocates one array more or less moves every array behind it. Many placements a process average it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

PAGE_BYTES = 2 << 20
"""CUDA maps device memory in pages of this size, and begins an allocation at least as large on one."""

SMALL_ALIGNMENT_BYTES = 512
"""A smaller array begins where CuPy's pool would begin it."""


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
