"""What an emulated kernel can do wrong, as data and as an exception."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

Triple = tuple[int, int, int]


class DefectKind(IntEnum):
    """What is wrong with a kernel."""

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

    @property
    def words(self) -> str:
        """For people: ``shared race``."""
        return self.name.lower().replace("_", " ")


_RACES = (DefectKind.SHARED_RACE, DefectKind.GLOBAL_RACE, DefectKind.SAME_VALUE_RACE)


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect, at its first occurrence.

    ``location`` and ``other_location`` are ``file.cu:12``, None where unknown (an output that nobody wrote has no
    place, and no thread either); the other one and ``other_thread`` are
    those of the access or barrier that this one clashes with. ``count`` is how often it happened.
    """

    kind: DefectKind
    message: str
    location: str | None
    other_location: str | None
    thread: Triple
    block: Triple
    other_thread: Triple | None
    count: int

    def __str__(self) -> str:
        """One line: where, what, by whom, against what, how often."""
        where = f"{self.location}: " if self.location else ""
        against = "".join(
            (
                f" thread {self.other_thread}" if self.other_thread else "",
                f" at {self.other_location}" if self.other_location else "",
            )
        )
        against = f", against{against}" if against else ""
        often = f", {self.count} times" if self.count > 1 else ""
        if self.kind is DefectKind.UNWRITTEN_OUTPUT:
            return f"{self.kind.words}: {self.message}"
        line = f"{where}{self.kind.words}: {self.message}; thread {self.thread} of block {self.block}{against}{often}"
        return f"{line}; {self.missing}" if self.missing else line

    @property
    def missing(self) -> str | None:
        """What would order the two accesses of a race inside a block; None for any other defect."""
        if self.kind not in _RACES or self.other_thread is None or not self.location or not self.other_location:
            return None
        if self.location == self.other_location:
            return f"a barrier is missing between two passes of {self.location}"
        return f"a barrier is missing between {self.other_location} and {self.location}"


class KernelDefect(Exception):
    """A kernel did something that is wrong on a GPU.

    ``defects`` has all that was seen, ``kind`` is that of the first.
    """

    def __init__(self, defects: tuple[Defect, ...]) -> None:
        first = defects[0]
        more = f" (and {len(defects) - 1} more)" if len(defects) > 1 else ""
        super().__init__(f"{first}{more}")
        self.defects = defects
        self.kind = first.kind
