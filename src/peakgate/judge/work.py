"""Whether a case declares the work that hardware counters saw. Pure; a note beside the verdict, and none itself.

Every byte of a launch passes the L2. What of it memory must move depends on the state in which the case is timed:

- **cold**: every byte that is read comes from device memory. What is written reaches it too, but up to an L2 full of it
  after the end of the launch, where no counter sees it. So a launch moved at least what DRAM counted, and at most the
  stores besides that the L2 can hold.
- **warm** and **graph**: the data may be in the L2, and what DRAM counted says nothing about the least that must move.
  A launch moved at most what passed between the SMs and the L2.

Operations on halves are known as far as the compiler moves and converts nothing by such instructions: what was executed
lies between none of them and all.

A declaration is noted that is more than twice the most, or less than half of the least; of bytes the latter not for a
launch of several kernels, since the profiler flushes the L2 before each and DRAM moves what one leaves for the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

FACTOR = 2.0
"""A declaration within this factor of what was counted is not noted."""

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


class CountedWork(Protocol):
    """What one launch did, by hardware counters, as the run file's ``CaseCounters`` has it; None is unknown."""

    @property
    def launched_kernels(self) -> float: ...
    @property
    def dram_read_bytes(self) -> float | None: ...
    @property
    def dram_written_bytes(self) -> float | None: ...
    @property
    def l2_read_bytes(self) -> float | None: ...
    @property
    def l2_written_bytes(self) -> float | None: ...
    @property
    def executed_flops(self) -> float | None: ...
    @property
    def half_flops(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class WorkNote:
    """Work of a case that is declared otherwise than it was counted: ``work`` is ``bytes`` or ``flops``.

    ``counter`` says what counted: ``DRAM``, ``DRAM and stores in the L2``, ``the L2`` or ``the kernels``.
    """

    case: str
    work: str
    declared: float
    counted: float
    counter: str

    @property
    def sentence(self) -> str:
        """``a.b: declares 537 MB, DRAM moved 1.34 GB``."""
        unit, done = ("B", "moved") if self.work == "bytes" else ("FLOP", "executed")
        return (
            f"{self.case}: declares {_amount(self.declared, unit)}, {self.counter} {done} {_amount(self.counted, unit)}"
        )


def work_notes(
    case: str,
    state: str,
    counted: CountedWork,
    *,
    declared_bytes: float | None,
    declared_flops: float | None,
    l2_bytes: float | None,
) -> Iterator[WorkNote]:
    """What is declared otherwise than it was counted; nothing of work that is not declared, or not counted.

    ``state`` is the case's, ``l2_bytes`` the size of the GPU's L2, None where it is unknown.
    """
    read, written = counted.dram_read_bytes, counted.dram_written_bytes
    asked, stored = counted.l2_read_bytes, counted.l2_written_bytes
    if declared_bytes and read is not None and written is not None and asked is not None and stored is not None:
        dram = read + written
        if state == "cold":
            pending = min(max(0.0, stored - written), math.inf if l2_bytes is None else l2_bytes)
            most, counter = dram + pending, "DRAM and stores in the L2" if pending else "DRAM"
        else:
            most, counter = max(dram, asked + stored), "the L2"
        if declared_bytes > FACTOR * most:
            yield WorkNote(case, "bytes", declared_bytes, most, counter)
        elif declared_bytes < dram / FACTOR and counted.launched_kernels == 1:
            yield WorkNote(case, "bytes", declared_bytes, dram, "DRAM")
    if declared_flops and counted.executed_flops is not None and counted.half_flops is not None:
        executed, most = counted.executed_flops, counted.executed_flops + counted.half_flops
        if declared_flops > FACTOR * most:
            yield WorkNote(case, "flops", declared_flops, most, "the kernels")
        elif declared_flops < executed / FACTOR:
            yield WorkNote(case, "flops", declared_flops, executed, "the kernels")


def _amount(value: float, unit: str) -> str:
    """``16.8 MB``."""
    for size, prefix in _UNITS:
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
