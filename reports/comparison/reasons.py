"""The reasons of the verdicts and the longer notes, one line each; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from peakgate.common.text import counted
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.evidence import CaseEvidence
from peakgate.reports.result import Shift, percent, probability
from peakgate.reports.runs.runfile import CaseResult, Run

NOTABLE_CLOCK_CHANGE = 0.01
SAME_CODE = "same code: environment"

TERMS = ("bytes", "flops", "tolerance", "sampling", "timer")
CODE_FACTS = (("registers", "registers"), ("spill_bytes", "spilled bytes"), ("shared_bytes", "shared bytes"))


def moved(case: CaseEvidence, shift: Shift) -> str:
    """A shift that is flagged: by how much, against what could be resolved, and what else changed."""
    base, new = case.base.results[-1], case.new.results[-1]
    text = f"{shift}, beyond the {percent(shift.resolvable_percent)} these runs can resolve"
    if shift.p_value is not None:
        text = (
            f"{shift} over {len(case.base.results)} and {len(case.new.results)} sessions, {probability(shift.p_value)}"
        )
    return "; ".join([text, *causes(base, new)])


def unmoved(shift: Shift) -> str:
    """A shift that is not flagged."""
    return f"{shift.percent:+.2f} %, within the {percent(shift.resolvable_percent)} these runs can resolve"


def below_floor(case: CaseEvidence) -> str:
    """How far below, from the latest session that found it so."""
    result = next(result for result in reversed(case.new.results) if result.below_floor)
    if result.peak_fraction is None or result.floor is None:
        return result.reason or "below its floor"
    return f"{result.peak_fraction:.3f} of peak, floor {result.floor:.3f}"


def several_gpus(runs: Sequence[Run]) -> str:
    """What it means for the reader that the runs of both sides are not known to be of one GPU."""
    known = "known to be " if any(run.uuid is None for run in runs) else ""
    apart = percent(100 * math.expm1(noise.BETWEEN_GPUS))
    return (
        f"the runs are not {known}of one and the same GPU: GPUs of one model may differ by {apart} in a case, so no"
        " smaller change of a case is flagged; to detect one, measure both sides on one GPU (`peakgate ab`)"
    )


def causes(base: CaseResult, new: CaseResult) -> list[str]:
    """Each a few words: code, what the compiler allots, occupancy, clock, floor; empty where nothing known changed."""
    found = [*_code(base, new), *_clock(base, new)]
    if new.floor is not None and new.peak_fraction is not None and new.peak_fraction < new.floor:
        found.append(f"below its floor too: {new.peak_fraction:.3f} of peak, floor {new.floor:.3f}")
    return found


def _code(base: CaseResult, new: CaseResult) -> list[str]:
    if base.fingerprint and base.fingerprint == new.fingerprint:
        return [SAME_CODE]
    found = []
    for field, name in CODE_FACTS:
        before, after = getattr(base, field), getattr(new, field)
        if before is not None and after is not None and before != after:
            found.append(f"{name} {before:g} to {after:g}")
    if base.occupancy is not None and new.occupancy is not None and base.occupancy != new.occupancy:
        limits = f", limited by {new.occupancy_limiter}" if new.occupancy_limiter else ""
        found.append(f"occupancy {100 * base.occupancy:.0f} % to {100 * new.occupancy:.0f} %{limits}")
    if not found and base.fingerprint and new.fingerprint:
        found.append("other machine code, same registers, shared memory and occupancy")
    return found


def _clock(base: CaseResult, new: CaseResult) -> list[str]:
    """A clock that changed explains time, not cycles: what is left in cycles is the kernel's own."""
    if not base.sm_clock_mhz or not new.sm_clock_mhz:
        return []
    ratio = new.sm_clock_mhz / base.sm_clock_mhz
    if abs(ratio - 1) <= NOTABLE_CLOCK_CHANGE:
        return []
    cycles = 100 * math.expm1(math.log(new.time_us / base.time_us * ratio))
    return [f"SM clock {base.sm_clock_mhz:.0f} to {new.sm_clock_mhz:.0f} MHz, {cycles:+.1f} % in cycles"]


def changed_terms(base: Sequence[Run], new: Sequence[Run]) -> list[str]:
    """One line per term that differs in a case of both sides, with how many cases and the first of them."""
    before, after = _last(base), _last(new)
    lines = []
    for term in TERMS:
        changes = [
            (case, values)
            for case, result in before.items()
            if case in after and _differ(values := (getattr(result, term), getattr(after[case], term)))
        ]
        if changes:
            case, (old, now) = changes[0]
            count = counted(len(changes), "case")
            lines.append(f"{term} differ in {count} ({case} first: {_shown(old)} to {_shown(now)})")
    return lines


def _last(runs: Sequence[Run]) -> dict[str, CaseResult]:
    return {case: result for run in runs for case, result in run.cases.items()}


def _differ(values: tuple[object, object]) -> bool:
    return None not in values and values[0] != values[1]


def _shown(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
