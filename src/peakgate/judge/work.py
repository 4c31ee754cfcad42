"""Compares the work that a case declares with hardware counters; a difference is a note and never a verdict.

Every byte of a launch passes through the L2. How much of it DRAM must move depends on the state of the case:

- **cold**: every byte that is read comes from DRAM. Stores reach it too, but up to the size of the L2 only after the
  end of the launch, where no counter sees them. So a launch moved at least what DRAM counted, and at most also the
  stores that the L2 can hold.
- **warm** and **graph**: the data may be in the L2, so the DRAM counters give no lower limit. A launch moved at most
  the traffic between SMs and L2.

Half-precision instructions may also be moves and conversions: the number of operations is between none of them and all.

A declaration of more than twice the upper limit or less than half of the lower limit is noted. The lower limit of bytes
does not apply to a launch of several kernels: the profiler flushes the L2 before each, so DRAM moves intermediate data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from peakgate.spec.recorded import CaseCounters, WorkNote

FACTOR = 2.0
"""A declaration within this factor of the counted work is not noted."""


def work_notes(
    case: str,
    state: str,
    counted: CaseCounters,
    *,
    declared_bytes: float | None,
    declared_flops: float | None,
    l2_bytes: float | None,
) -> Iterator[WorkNote]:
    """Notes on declared work that differs from counted work; none for work that is not declared or not counted.

    ``counted`` are the counters of one launch, ``state`` is the case's, ``l2_bytes`` the size of the GPU's L2, None if
    unknown.
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
