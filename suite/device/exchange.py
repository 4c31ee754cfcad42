"""Arguments that nothing can change, as JAX's arrays: a call is given new ones, made by DLPack on memory that can.

So the elements change between calls as those of every other array do, and the stream on which they were written is one
that the framework waits for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from peakgate.core.case import Array
from peakgate.core.dtypes import BITS
from peakgate.device.arrays import dtype_name, framework, on_gpu, plain

ALIGNMENT_BYTES = 64
"""Where the host's memory is not aligned so, XLA copies it."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """An argument's elements in memory of ours; ``dtype`` where that holds the bits of a type that NumPy lacks."""

    storage: Array
    namespace: Any
    dtype: str | None

    def array(self) -> Any:
        """The framework's array on that memory, as it is at this place of the current stream."""
        made = self.namespace.from_dlpack(self.storage)
        return made if self.dtype is None else made.view(self.dtype)


@dataclass
class Exchange:
    """The exchanged arrays of a call's arguments, each once."""

    _known: dict[int, tuple[object, Exchanged]] = field(default_factory=dict)

    def put(self, value: Any) -> Any:
        """Nested tuples, lists and mappings with an ``Exchanged`` for each exchanged array."""
        if framework(value) != "exchanged":
            return _each(value, self.put)
        if id(value) not in self._known:
            name = dtype_name(value)
            storage = plain(value).copy() if on_gpu(value) else _aligned(plain(value))
            made = Exchanged(storage, value.__array_namespace__(), name if name in BITS else None)
            self._known[id(value)] = (value, made)
        return self._known[id(value)][1]

    @property
    def storages(self) -> list[Array]:
        """The memory of all of them."""
        return [made.storage for _, made in self._known.values()]


def given(value: Any) -> Any:
    """What ``Exchange.put`` gave, with the framework's arrays in it."""
    return value.array() if isinstance(value, Exchanged) else _each(value, given)


def _each(value: Any, change: Any) -> Any:
    """A plain tuple, list or dict with its members changed; everything else as it is."""
    if type(value) in (tuple, list):
        return type(value)(change(member) for member in value)
    if type(value) is dict:
        return {key: change(member) for key, member in value.items()}
    return value


def _aligned(array: Array) -> Array:
    room = np.empty(array.nbytes + ALIGNMENT_BYTES, np.uint8)
    start = -room.ctypes.data % ALIGNMENT_BYTES
    made = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made
