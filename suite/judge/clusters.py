"""Where the wrong elements of an output are, in a few words: a row, the last columns, every 32nd row, a tile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_AXES = {1: ("element",), 2: ("row", "column"), 3: ("plane", "row", "column")}


def where_wrong(flags: Sequence[np.ndarray[Any, Any]], wrong: int) -> str:
    """The place of ``wrong`` elements by the indices that occur along each axis: ``flags[axis][index]``.

    "every element of row 7", "in the last 3 columns", "in rows 32 to 63 and columns 0 to 31".
    """
    names = _AXES.get(len(flags)) or tuple(f"index along axis {axis}" for axis in range(len(flags)))
    places = [_along(name, each) for name, each in zip(names, flags, strict=True)]
    described = " and ".join(place for place in places if place)
    full = wrong == math.prod(int(each.sum()) for each in flags)
    if not described:
        return "all of them" if full else "spread over the whole output"
    return f"all of {described}" if full else f"in {described}"


def _along(name: str, flags: np.ndarray[Any, Any]) -> str:
    """The indices along one axis; empty where they are spread over all of it."""
    at, length = np.flatnonzero(flags), flags.size
    first, last, count = int(at[0]), int(at[-1]), at.size
    if count == 1:
        return "" if length == 1 else f"{name} {first}"
    steps = np.unique(np.diff(at))
    if count == length or (steps.size > 1 and 4 * count > length):
        return ""
    if steps.size > 1:
        return f"{count} {name}s between {first} and {last}"
    if steps[0] > 1:
        return f"every {steps[0]}th {name} from {first} to {last}"
    if first == 0:
        return f"the first {count} {name}s"
    return f"the last {count} {name}s" if last == length - 1 else f"{name}s {first} to {last}"
