"""The reasons beside the verdicts, each one line."""

from __future__ import annotations

from reports.evidence import CaseEvidence
from reports.result import Shift
from reports.runfile import CaseResult

NOTABLE_CLOCK_CHANGE = 0.01

CODE_FACTS = (("registers", "registers"), ("spill_bytes", "spilled bytes"), ("shared_bytes", "shared bytes"))


def moved(case: CaseEvidence, shift: Shift) -> str:
    """A shift that counts: by how much, against what could be resolved, and what else changed."""
    base, new = case.base.results[-1], case.new.results[-1]
    told = f"{shift}, beyond the {shift.resolvable_percent:.2g} % these runs can resolve"
    if shift.p_value is not None:
        told = f"{shift} over {len(case.base.results)} and {len(case.new.results)} sessions, p = {shift.p_value:.1g}"
    return "; ".join([told, *_likely_causes(base, new)])


def unmoved(shift: Shift) -> str:
    """A shift that does not count."""
    return f"{shift.percent:+.2f} %, within the {shift.resolvable_percent:.2g} % these runs can resolve"


def below_floor(case: CaseEvidence) -> str:
    """How far below, from the latest session that found it so."""
    result = next(result for result in reversed(case.new.results) if result.below_floor)
    if result.peak_fraction is None or result.floor is None:
        return result.reason or "below its floor"
    return f"{result.peak_fraction:.3f} of peak, floor {result.floor:.3f}"


def _likely_causes(base: CaseResult, new: CaseResult) -> list[str]:
    causes = []
    if base.fingerprint and base.fingerprint == new.fingerprint:
        causes.append("same code: environment")
    for field, name in CODE_FACTS:
        before, after = getattr(base, field), getattr(new, field)
        if before is not None and after is not None and before != after:
            causes.append(f"{name} {before:g} to {after:g}")
    if base.sm_clock_mhz and new.sm_clock_mhz:
        change = new.sm_clock_mhz / base.sm_clock_mhz - 1
        if abs(change) > NOTABLE_CLOCK_CHANGE:
            causes.append(f"SM clock {base.sm_clock_mhz:.0f} to {new.sm_clock_mhz:.0f} MHz")
    if new.floor is not None and new.peak_fraction is not None and new.peak_fraction < new.floor:
        causes.append(f"below its floor too: {new.peak_fraction:.3f} of peak, floor {new.floor:.3f}")
    return causes
