"""The defects of an emulated launch, and the trace of one block's shared-memory accesses, as data."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

import numpy as np

from peakgate_emulator.binary import LaunchStructure, lines_of, plain_name, symbols_of

Triple = tuple[int, int, int]

_ROOM = 1 << 20
"""Largest number of traced accesses; later ones are only counted."""

_TRACED = np.dtype([(name, np.uint32) for name in ("epoch", "thread", "offset", "size", "address", "manner")])
"""``Traced`` of runtime.h."""

_WRITE, _ATOMIC, _ASYNC, _DYNAMIC = 1, 2, 4, 8


class DefectKind(IntEnum):
    """Kind of a defect; the numbers of ``Kind`` in runtime.h."""

    OUT_OF_BOUNDS = 1
    INDEX_OUT_OF_BOUNDS = 2
    SHARED_RACE = 3
    GLOBAL_RACE = 4
    UNINITIALISED_SHARED = 5
    DIVERGENT_BARRIER = 6
    MISALIGNED = 7
    ENDLESS_LOOP = 8
    WARP_MASK = 9
    CONST_WRITE = 10
    ASSERTION = 11
    FAULT = 12
    UNWRITTEN_OUTPUT = 13
    SAME_VALUE_RACE = 14
    UNINITIALISED_GLOBAL = 15
    NONFINITE = 16
    REGISTER_RACE = 18
    DANGLING_POINTER = 20
    LAUNCH_REFUSED = 21
    INVALID_METADATA = 22
    UNSET_VALUE = 23
    TENSOR_RACE = 24
    TENSOR_ACCESS = 25
    UNINITIALISED_TENSOR = 26
    INVALID_DESCRIPTOR = 27

    @property
    def words(self) -> str:
        """In words, such as ``shared race``."""
        return self.name.lower().replace("_", " ")


class MissingFence(IntEnum):
    """Where a fence would order two blocks; the numbers of ``MissingFence`` in runtime.h."""

    NONE = 0
    OF_WRITER = 1
    OF_READER = 2


_OTHERS = ("another thread", "another block", "an asynchronous operation")
RACES = (DefectKind.SHARED_RACE, DefectKind.GLOBAL_RACE, DefectKind.SAME_VALUE_RACE)
_READ_LAST, _WRITE_LAST = "read after write", "write after read"
"""Beginnings of the messages of such races."""


@dataclass(frozen=True, slots=True)
class RaceStep:
    """One thread's step at ``location``, such as ``file.cu:12``; ``thread`` and ``block`` are None if unknown."""

    location: str
    thread: Triple | None
    block: Triple | None


@dataclass(frozen=True, slots=True)
class EmulatorDefect:
    """One defect, at its first occurrence.

    ``location`` is such as ``file.cu:12``; None if unknown, as for an output that no thread wrote. ``other_location``,
    ``other_thread`` and ``other_block`` are those of the conflicting access or barrier. ``count`` is the number of
    occurrences. ``both_ways``: the two lines race as read after write and as write after read. ``fence``: the thread
    has read what the other block stored at ``published_at`` (None if unknown), and a fence is missing on one side.
    ``called_from`` and ``other_called_from`` are the lines of the kernel that call the functions with the locations,
    None if these are the kernel's own, or unknown. ``with_it`` are further races between blocks that the same missing
    order allows.
    """

    kind: DefectKind
    message: str
    location: str | None
    other_location: str | None
    thread: Triple
    block: Triple
    other_thread: Triple | None
    other_block: Triple | None
    count: int
    both_ways: bool = False
    fence: MissingFence = MissingFence.NONE
    published_at: str | None = None
    called_from: str | None = None
    other_called_from: str | None = None
    with_it: tuple[EmulatorDefect, ...] = ()

    def __str__(self) -> str:
        """One line: location, kind, message, thread, conflicting thread, count, what is missing, further races."""
        where = f"{self.location}: " if self.location else ""
        called = f", called from {self.called_from}" if self.called_from else ""
        other = f"thread {self.other_thread}" if self.other_thread else self._unknown_other
        if self.other_block and self.other_block != self.block:
            other = f"{other} of block {self.other_block}"
        against = " at ".join(filter(None, (other, self.other_location)))
        against = f", against {against}" if against else ""
        against += f", called from {self.other_called_from}" if self.other_called_from else ""
        often = f", {self.count} times" if self.count > 1 else ""
        if self.kind is DefectKind.UNWRITTEN_OUTPUT:
            return f"{self.kind.words}: {self.message}"
        who = f"thread {self.thread} of block {self.block}{called}"
        line = f"{where}{self.kind.words}: {self.message}; {who}{against}{often}"
        places = ", ".join(dict.fromkeys(each.location for each in self.with_it if each.location))
        further = f"with it {len(self.with_it)} more at {places}" if self.with_it else ""
        return "; ".join(filter(None, (line, self.missing, further)))

    @property
    def _unknown_other(self) -> str:
        """Whose the conflicting access is, where no thread is known: of several readers the last one alone is."""
        return next((who for who in _OTHERS if self.other_location and f" by {who}" in self.message), "")

    @property
    def written_and_read(self) -> tuple[str | None, str | None]:
        """The lines of the write and of the read that race."""
        places = (self.other_location, self.location)
        return places if self.message.startswith(_READ_LAST) else places[::-1]

    @property
    def order(self) -> tuple[RaceStep, ...]:
        """The steps that reproduce it, in order: the conflicting access if there is one, then this one.

        Empty if no thread is involved, as for an output that is not written.
        """
        if self.location is None:
            return ()
        own = RaceStep(self.location, self.thread, self.block)
        if not self.other_location:
            return (own,)
        return RaceStep(self.other_location, self.other_thread, self.other_block), own

    def allows(self, other: EmulatorDefect) -> bool:
        """Whether what is missing here allows another race too: a fence, or order between two lines, across blocks."""
        across = all(each.other_block and each.other_block != each.block for each in (self, other))
        if not across or self.kind not in RACES or self.kind is not other.kind:
            return False
        if self.fence or other.fence:
            return (self.fence, self.published_at) == (other.fence, other.published_at)
        return {other.location, other.other_location} <= {self.location, self.other_location}

    @property
    def missing(self) -> str | None:
        """Synchronization that would order the two accesses of a race, within a block or by a fence; None otherwise."""
        if self.fence is MissingFence.OF_WRITER:
            return f"a __threadfence() or a release is missing between {self.other_location} and {self.published_at}"
        if self.fence is MissingFence.OF_READER:
            seen = f" what {self.published_at} stores" if self.published_at else " what that block has stored since"
            return f"a __threadfence() or an acquire is missing before {self.location}, after the read of{seen}"
        in_block = self.other_block == self.block or self._unknown_other == _OTHERS[0]
        if self.kind not in RACES or not in_block or not self.location or not self.other_location:
            return None
        own, other = self.called_from or self.location, self.other_called_from or self.other_location
        if own == other:
            # `s[t] += s[t + 16]` needs no loop to race: its read has to be before all writes.
            reads = self.message.startswith((_READ_LAST, _WRITE_LAST))
            between = "between its read and its write, and between" if reads else "between"
            return f"{self.location} needs an atomic, or a barrier {between} two passes of a loop around it"
        if self.both_ways:
            write, read = (other, own) if self.message.startswith(_READ_LAST) else (own, other)
            return f"a barrier is missing between {write} and {read}, or between {read} and the next {write}"
        return f"a barrier is missing between {other} and {own}"


def in_reading_order(found: Sequence[EmulatorDefect]) -> tuple[EmulatorDefect, ...]:
    """The defects of one launch, sorted: write after read later if the lines race both ways, uninitialised reads last.

    A missing barrier causes a race and an uninitialised read; the race has both locations. Races between blocks that
    one missing fence allows, or of the same two lines, are one defect: the first, with the others in its ``with_it``.
    """
    after_write = {each.written_and_read for each in found if each.message.startswith(_READ_LAST)}
    after_read = {each.written_and_read for each in found if each.message.startswith(_WRITE_LAST)}
    both = after_write & after_read
    marked = [replace(each, both_ways=each.written_and_read in both) for each in found]

    def place(defect: EmulatorDefect) -> int:
        if defect.kind is DefectKind.UNINITIALISED_SHARED:
            return 2
        return int(defect.both_ways and defect.message.startswith(_WRITE_LAST))

    kept: list[EmulatorDefect] = []
    for each in sorted(marked, key=place):
        at = next((number for number, other in enumerate(kept) if other.allows(each)), None)
        if at is None:
            kept.append(each)
        else:
            kept[at] = replace(kept[at], with_it=(*kept[at].with_it, each))
    return tuple(kept)


class KernelDefect(Exception):
    """A kernel has defects: all are in ``defects``, and ``kind`` is the first one's."""

    def __init__(self, defects: tuple[EmulatorDefect, ...]) -> None:
        first = defects[0]
        more = f" (and {len(defects) - 1} more)" if len(defects) > 1 else ""
        super().__init__(f"{first}{more}")
        self.defects = defects
        self.kind = first.kind


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """One access: ``phase`` is the number of the block's barriers before it, ``thread`` the linear index in the block.

    ``array`` is the variable's name, empty if unknown, ``offset`` is in bytes from its start, and ``line`` is such as
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
    """Records the accesses of ``block`` in the launch it is passed to; ``threads`` is the shape of the blocks."""

    def __init__(self, block: Triple) -> None:
        self.block = block
        self.threads: Triple = (1, 1, 1)
        self._kept = np.zeros(_ROOM, _TRACED)
        self._count = ctypes.c_uint64()
        self._library = Path()

    def begin(self, request: LaunchStructure, library: Path) -> None:
        """Make a launch write to this trace; an earlier launch's accesses are discarded."""
        self._count.value, self._library = 0, library
        self.threads = tuple(request.block)
        request.trace_block = self.block
        request.trace = self._kept.ctypes.data
        request.trace_room = _ROOM
        request.traced = ctypes.addressof(self._count)

    @property
    def missing(self) -> int:
        """Number of accesses that were not recorded."""
        return max(0, self._count.value - _ROOM)

    def accesses(self) -> list[SharedAccess]:
        """The recorded accesses, in order."""
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
    """Offset, size and name of each static ``__shared__`` variable: thread-local symbols of the shared object."""
    of_threads = [symbol for symbol in symbols_of(library) if symbol.kind == "STT_TLS" and symbol.size]
    return sorted({(symbol.address, symbol.size, plain_name(symbol.name)) for symbol in of_threads})
