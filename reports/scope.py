"""Which cases a comparison is about, and what it says of those it leaves out; pure."""

from __future__ import annotations

from collections.abc import Sequence

from peakgate.reports.evidence import CaseEvidence
from peakgate.reports.locate import Side


def in_scope(gathered: Sequence[CaseEvidence], new: Side) -> tuple[list[CaseEvidence], tuple[str, ...]]:
    """The cases to judge, and a note on each kind of the others: not asked of NEW, or a matter of the host."""
    asked = [case for case in gathered if not _not_asked(case, new)]
    judged = [case for case in asked if not _host_bound(case)]
    notes = []
    if len(asked) < len(gathered):
        why = "ran the gate tier" if any(run.whole for run in new.runs) else "ran a selection of cases"
        notes.append(f"left out of base, {_count(len(gathered) - len(asked))}: new {why}")
    if len(judged) < len(asked):
        notes.append(f"not judged, {_count(len(asked) - len(judged))}: the time is the host's as much as the GPU's")
    return judged, tuple(notes)


def _count(cases: int) -> str:
    return "1 case" if cases == 1 else f"{cases} cases"


def _not_asked(case: CaseEvidence, new: Side) -> bool:
    """Whether NEW was not asked for the case: runs of a selection, or of the gate tier and a case that is not in it."""
    if case.new.known or not case.base.results:
        return False
    beyond_the_gate = case.base.results[-1].tier == "full" and all(run.tier == "gate" for run in new.runs)
    return beyond_the_gate or not any(run.whole for run in new.runs)


def _host_bound(case: CaseEvidence) -> bool:
    """Whether a side's runs say so; wrong results count all the same."""
    timed = (*case.base.results, *case.new.results)
    return any(result.host_bound for result in timed) and case.new.wrong is None
