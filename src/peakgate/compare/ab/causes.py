"""Why a case is slower: differences between its two sides, the one that explains most first; pure.

Extra work is converted to SM cycles, summed over all SMs, so that different causes can be compared:

- each bank conflict, an extra wavefront of a shared memory access, takes one cycle of the SM's L1;
- a sector between L1 and L2 takes half a cycle (64 bytes per cycle and SM);
- an instruction takes a quarter of a cycle: each of the four schedulers issues one per cycle (NVIDIA, CUDA C++
  Programming Guide, compute capabilities; Nsight Compute, Kernel Profiling Guide, memory tables).

Order: extra work that explains at least NOTABLE_SHARE of the additional cycles, then changes of the code's structure,
then cache metrics, and last stalls, which are symptoms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from peakgate.base.formatting import figure
from peakgate.compile.sass import SassInstruction, loops, mix
from peakgate.judge.occupancy import Resources
from peakgate.run.ncu import STALLS, Counters

NOTABLE = 0.1  # smaller relative changes are not reported

# A cause that accounts for less than this share of the additional cycles does not explain the change; it is listed
# after those that may.
NOTABLE_SHARE = 0.2

SECTOR_CYCLES, INSTRUCTION_CYCLES = 0.5, 0.25

_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Machine code: number of instructions, instructions by class, and loop bodies in instructions, longest first."""

    instructions: int
    classes: Mapping[str, int]
    loops: tuple[int, ...]

    @staticmethod
    def of(code: Sequence[SassInstruction]) -> MachineCode:
        return MachineCode(len(code), mix(code), tuple(loops(code)))


@dataclass(frozen=True, slots=True)
class ExplainedSide:
    """One case on one side; ``code`` is None without a disassembler, ``counters`` is empty without ncu."""

    resources: Resources
    code: MachineCode | None = None
    counters: Counters = field(default_factory=dict)


class FindingCause(StrEnum):
    """Cause named by a finding."""

    SPILLS = "spills"
    BANK_CONFLICTS = "bank conflicts"
    SECTORS = "sectors"
    UNROLLING = "unrolling"
    INSTRUCTIONS = "instructions"
    FP64 = "FP64"
    BARRIERS = "barriers"
    OCCUPANCY = "occupancy"
    DRAM = "DRAM bytes"
    L2 = "L2 hit rate"
    ISSUE = "issue slots"
    STALL = "stall"
    REGISTERS = "registers"


@dataclass(frozen=True, slots=True)
class SideDifference:
    """One difference: its cause, a sentence, and its sort key: ascending ``rank``, then descending ``weight``."""

    cause: FindingCause
    sentence: str
    rank: int
    weight: float


def findings(base: ExplainedSide, head: ExplainedSide) -> list[SideDifference]:
    """Differences between the sides, the likeliest cause of a slower head first; empty if none is notable."""
    found = [finding for find in _FINDERS for finding in find(base, head)]
    return sorted(found, key=lambda finding: (finding.rank, -finding.weight, finding.cause))


def _spills(base: ExplainedSide, head: ExplainedSide) -> Iterator[SideDifference]:
    before, after = base.resources.spill_bytes, head.resources.spill_bytes
    if after <= before:
        return
    sectors = _sums(base, head, *(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{way}.sum" for way in ("ld", "st")))
    text = f"Registers are spilled: {before} to {after} bytes per thread"
    if sectors[1] > sectors[0]:
        text += f", {_count(sectors[0])} to {_count(sectors[1])} sectors of local memory"
    weight = _share(base, head, SECTOR_CYCLES * (sectors[1] - sectors[0]))
    yield SideDifference(FindingCause.SPILLS, f"{text}.", 0, 1 + weight)


def _bank_conflicts(base: ExplainedSide, head: ExplainedSide) -> Iterator[SideDifference]:
    names = [f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{way}.sum" for way in ("ld", "st")]
    before, after = _sums(base, head, *names)
    waves = [f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{way}.sum" for way in ("ld", "st")]
    wavefronts = _sums(base, head, *waves)
    extra = after - before
    if extra <= NOTABLE * max(wavefronts[0], before, 1.0):
        return
    share = _share(base, head, extra)
    text = f"More bank conflicts in shared memory: {_count(before)} to {_count(after)}"
    if wavefronts[0]:
        text += f", {wavefronts[1] / wavefronts[0]:.3g} times the wavefronts"
    yield SideDifference(FindingCause.BANK_CONFLICTS, f"{text}.", _rank(share), share)


def _sectors(base: ExplainedSide, head: ExplainedSide) -> Iterator[SideDifference]:
    for way, access in (("ld", "load"), ("st", "store")):
        names = [f"l1tex__t_{what}_pipe_lsu_mem_global_op_{way}.sum" for what in ("sectors", "requests")]
        if not all(side.counters.get(names[1]) and names[0] in side.counters for side in (base, head)):
            continue
        sectors, requests = (_sums(base, head, name) for name in names)
        before, after = (count / asked for count, asked in zip(sectors, requests, strict=True))
        if after <= (1 + NOTABLE) * before and sectors[1] <= (1 + NOTABLE) * sectors[0]:
            continue
        share = _share(base, head, SECTOR_CYCLES * (sectors[1] - sectors[0]))
        text = (
            f"Global {access}s are less coalesced: {before:.3g} to {after:.3g} sectors per request, "
            f"{_count(sectors[0])} to {_count(sectors[1])} sectors."
        )
        yield SideDifference(FindingCause.SECTORS, text, _rank(share), share)


def _instructions(base: ExplainedSide, head: ExplainedSide) -> Iterator[SideDifference]:
    before, after = (side.counters.get("smsp__inst_executed.sum") for side in (base, head))
    rolled = _rolled_up(base, head)
    executed = ""
    share = 0.0
    if before and after and after > (1 + NOTABLE) * before:
        share = _share(base, head, INSTRUCTION_CYCLES * (after - before))
        executed = f"{after / before:.3g} times the instructions are executed"
    if rolled:
        text = f"A loop is unrolled less: {rolled}"
        yield SideDifference(
            FindingCause.UNROLLING, f"{text}{f'; {executed}' if executed else ''}.", min(1, _rank(share)), share
        )
    elif executed:
        yield SideDifference(
            FindingCause.INSTRUCTIONS,
            f"{executed[0].upper()}{executed[1:]}{_classes(base, head)}.",
            _rank(share),
            share,
        )


def _rolled_up(base: ExplainedSide, head: ExplainedSide) -> str:
    """How loops became shorter, or replaced straight-line code; empty if they did not."""
    if base.code is None or head.code is None or head.code.instructions >= base.code.instructions:
        return ""
    before, after = base.code.loops, head.code.loops
    if after and not before:
        return f"a loop of {after[0]} instructions instead of {base.code.instructions} of straight-line code"
    if after and before and sum(after) < (1 - NOTABLE) * sum(before):
        return f"loop bodies of {_listed(before)} to {_listed(after)} instructions"
    if len(after) > len(before):
        return f"{len(before)} to {len(after)} loops, {base.code.instructions} to {head.code.instructions} instructions"
    return ""


def _structure(base: ExplainedSide, head: ExplainedSide) -> Iterator[SideDifference]:
    if base.code and head.code:
        before, after = (code.classes.get("FP64", 0) for code in (base.code, head.code))
        if after > before:
            text = f"Double precision in the code: {before} to {after} FP64 instructions."
            yield SideDifference(FindingCause.FP64, text, 1, math.log((after + 1) / (before + 1)))
    before, after = base.resources.registers, head.resources.registers
    if before != after:
        text = f"Registers per thread: {before} to {after}."
        yield SideDifference(FindingCause.REGISTERS, text, 5, abs(math.log(after / before)))


def _metrics(base: ExplainedSide, head: ExplainedSide) -> Iterator[SideDifference]:
    before, after = _sums(base, head, _STALLED.format("barrier"))
    if after > 2 * before and after > 1:
        text = f"Warps wait at barriers: {before:.3g} to {after:.3g} warps stalled there per issued instruction."
        yield SideDifference(FindingCause.BARRIERS, text, 2, math.log(after / max(before, 0.1)))
    before, after = _sums(base, head, "sm__warps_active.avg.pct_of_peak_sustained_active")
    if before and after and after < (1 - NOTABLE) * before:
        registers = f" ({base.resources.registers} to {head.resources.registers} registers)"
        text = f"Lower achieved occupancy: {before:.3g} % to {after:.3g} %{registers}."
        yield SideDifference(FindingCause.OCCUPANCY, text, 1, math.log(before / after))
    before, after = _sums(base, head, "dram__bytes_read.sum", "dram__bytes_write.sum")
    if before and after > (1 + NOTABLE) * before:
        text = f"More device memory traffic: {_bytes(before)} to {_bytes(after)}."
        yield SideDifference(FindingCause.DRAM, text, 1, math.log(after / before))
    rates = [side.counters.get("lts__t_sector_hit_rate.pct") for side in (base, head)]
    if rates[0] and rates[1] is not None and rates[1] < (1 - NOTABLE) * rates[0]:
        text = f"Fewer L2 hits: {rates[0]:.3g} % to {rates[1]:.3g} % of sectors."
        yield SideDifference(FindingCause.L2, text, 2, math.log(rates[0] / max(rates[1], 0.1)))
    before, after = _sums(base, head, "smsp__issue_active.avg.pct_of_peak_sustained_active")
    if before and after and abs(after - before) > NOTABLE * before:
        text = f"Issue slots in use: {before:.3g} % to {after:.3g} %."
        yield SideDifference(FindingCause.ISSUE, text, 4, abs(math.log(after / before)))
    grown = []
    for stall in STALLS:
        before, after = _sums(base, head, _STALLED.format(stall))
        if stall != "selected" and after - before > max(NOTABLE * before, 0.1):
            grown.append((after - before, stall, before, after))
    for more, stall, before, after in sorted(grown, reverse=True)[:2]:
        text = f"Warps stall more on {stall.replace('_', ' ')}: {before:.3g} to {after:.3g} per issued instruction."
        yield SideDifference(FindingCause.STALL, text, 3, more)


_FINDERS = (_spills, _bank_conflicts, _sectors, _instructions, _structure, _metrics)


def _share(base: ExplainedSide, head: ExplainedSide, cycles: float) -> float:
    """``cycles`` as a share of head's additional SM cycles, between 0 and 1; 0 if head takes no more than base."""
    before, after = _sums(base, head, "sm__cycles_active.sum")
    return min(1.0, max(0.0, cycles / (after - before))) if after > before else 0.0


def _rank(share: float) -> int:
    return 0 if share >= NOTABLE_SHARE else 2


def _classes(base: ExplainedSide, head: ExplainedSide) -> str:
    """The three instruction classes whose count grew most."""
    if base.code is None or head.code is None:
        return ""
    before, after = base.code.classes, head.code.classes
    more = sorted(((after[name] - before.get(name, 0), name) for name in after), reverse=True)[:3]
    listed = ", ".join(f"{count:+} {name}" for count, name in more if count > 0)
    return f"; in the code {listed}" if listed else ""


def _sums(base: ExplainedSide, head: ExplainedSide, *names: str) -> tuple[float, float]:
    """The sum of these counters on each side; a counter that was not read counts as 0."""
    before, after = (sum(side.counters.get(name, 0.0) for name in names) for side in (base, head))
    return before, after


def _listed(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes[:4])) + (", ..." if len(sizes) > 4 else "")


def _count(value: float) -> str:
    for limit, unit in ((1e9, "billion"), (1e6, "million")):
        if value >= limit:
            return f"{figure(value / limit, 3)} {unit}"
    return f"{value:.0f}"


def _bytes(value: float) -> str:
    for limit, unit in ((2**30, "GiB"), (2**20, "MiB")):
        if value >= limit:
            return f"{figure(value / limit, 3)} {unit}"
    return f"{figure(value / 2**10, 3)} KiB"
