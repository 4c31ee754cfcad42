"""Shared-memory accesses of the threads of one block, in emulation order."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from peakgate.emulator.binary import LaunchStructure, lines_of, plain_name, symbols_of
from peakgate.emulator.defects import Triple

_ROOM = 1 << 20
"""Accesses that are kept, the first ones."""
_TRACED = np.dtype([(name, np.uint32) for name in ("epoch", "thread", "offset", "size", "address", "manner")])
"""``Traced`` of runtime.h."""
_WRITE, _ATOMIC, _ASYNC, _DYNAMIC = 1, 2, 4, 8


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """One access: ``phase`` counts the barriers of the block before it, ``thread`` is the linear index in the block.

    ``array`` is the variable's name, empty where unknown, and ``offset`` in bytes from its begin; ``line`` is
    ``file.cu:12``.
    """

    phase: int
    thread: int
    array: str
    offset: int
    size: int
    line: str
    writes: bool
    atomic: bool
    asynchronous: bool


class Trace:
    """The accesses of ``block`` in the launch that it is given to; ``threads`` is the shape of that launch's blocks."""

    def __init__(self, block: Triple) -> None:
        self.block = block
        self.threads: Triple = (1, 1, 1)
        self._kept = np.zeros(_ROOM, _TRACED)
        self._count = ctypes.c_uint64()
        self._library = Path()

    def begin(self, request: LaunchStructure, library: Path) -> None:
        """Have a launch write to this trace, which forgets an earlier one."""
        self._count.value, self._library = 0, library
        self.threads = tuple(request.block)
        request.trace_block = self.block
        request.trace = self._kept.ctypes.data
        request.trace_room = _ROOM
        request.traced = ctypes.addressof(self._count)

    @property
    def missing(self) -> int:
        """Accesses that there was no room for."""
        return max(0, self._count.value - _ROOM)

    def accesses(self) -> list[SharedAccess]:
        """Every access that was kept, in order."""
        kept = self._kept[: min(self._count.value, _ROOM)]
        if not kept.size:
            return []
        lines = lines_of(self._library, {int(address) for address in np.unique(kept["address"])})
        arrays = _shared_arrays(self._library)
        first = int(kept["epoch"].min())
        found = []
        for epoch, thread, offset, size, address, manner in kept.tolist():
            known = () if manner & _DYNAMIC else arrays
            start, name = next(((at, name) for at, size, name in known if at <= offset < at + size), (0, ""))
            found.append(
                SharedAccess(
                    epoch - first,
                    thread,
                    name,
                    offset - start,
                    size,
                    lines.get(address, ""),
                    bool(manner & _WRITE),
                    bool(manner & _ATOMIC),
                    bool(manner & _ASYNC),
                )
            )
        return found


def _shared_arrays(library: Path) -> list[tuple[int, int, str]]:
    """Begin, size and name of each static ``__shared__`` variable: thread-local symbols of the shared object."""
    of_threads = [symbol for symbol in symbols_of(library) if symbol.kind == "STT_TLS" and symbol.size]
    return sorted({(symbol.address, symbol.size, plain_name(symbol.name)) for symbol in of_threads})
