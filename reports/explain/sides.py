"""What is known of one case on one side: resources, machine code, hardware counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from peakgate.build.cubin import Resources
from peakgate.build.sass import Instruction, loops, mix
from peakgate.counters.ncu import Counters


@dataclass(frozen=True, slots=True)
class Code:
    """The machine code: instructions by class, loop bodies in instructions, longest first, barriers and divisions."""

    instructions: int
    classes: Mapping[str, int]
    loops: tuple[int, ...]

    @staticmethod
    def of(code: Sequence[Instruction]) -> Code:
        return Code(len(code), mix(code), tuple(loops(code)))


@dataclass(frozen=True, slots=True)
class Side:
    """One case on one side; ``code`` is None where no disassembler is on PATH, ``counters`` are empty without ncu."""

    resources: Resources
    code: Code | None = None
    counters: Counters = field(default_factory=dict)
