"""The reasons beside the verdicts and what a note explains, each one line."""

from __future__ import annotations

import math
from collections.abc import Sequence

from peakgate.reports import noise
from peakgate.reports.cause import causes
from peakgate.reports.evidence import CaseEvidence
from peakgate.reports.result import Shift, percent, probability
from peakgate.reports.runfile import Run


def moved(case: CaseEvidence, shift: Shift) -> str:
    """A shift that counts: by how much, against what could be resolved, and what else changed."""
    base, new = case.base.results[-1], case.new.results[-1]
    told = f"{shift}, beyond the {percent(shift.resolvable_percent)} these runs can resolve"
    if shift.p_value is not None:
        told = (
            f"{shift} over {len(case.base.results)} and {len(case.new.results)} sessions, {probability(shift.p_value)}"
        )
    return "; ".join([told, *causes(base, new)])


def unmoved(shift: Shift) -> str:
    """A shift that does not count."""
    return f"{shift.percent:+.2f} %, within the {percent(shift.resolvable_percent)} these runs can resolve"


def below_floor(case: CaseEvidence) -> str:
    """How far below, from the latest session that found it so."""
    result = next(result for result in reversed(case.new.results) if result.below_floor)
    if result.peak_fraction is None or result.floor is None:
        return result.reason or "below its floor"
    return f"{result.peak_fraction:.3f} of peak, floor {result.floor:.3f}"


def several_chips(runs: Sequence[Run]) -> str:
    """What it means for the reader that the runs of both sides are not known to be of one GPU."""
    known = "known to be " if any(run.uuid is None for run in runs) else ""
    apart = percent(100 * math.expm1(noise.BETWEEN_CHIPS))
    return (
        f"the runs are not {known}of one and the same GPU: chips of one model may lie {apart} apart in a case, so no"
        " smaller change of a case is called; to see one, measure both sides on one GPU (`nox -s ab`)"
    )
