"""Which cases a comparison is about, and what it says of those it leaves out; pure."""

from __future__ import annotations

from collections.abc import Sequence

from peakgate.reports.evidence import CaseEvidence
from peakgate.reports.locate import Side


def in_scope(gathered: Sequence[CaseEvidence], base: Side, new: Side) -> tuple[list[CaseEvidence], tuple[str, ...]]:
    """The cases to judge, and a note on each kind of the others: not asked of NEW, or a matter of the host."""
    asked = [case for case in gathered if not _not_asked(case, base, new)]
    judged = [case for case in asked if not _host_bound(case)]
    notes = []
    if len(asked) < len(gathered):
        notes.append(f"left out of base, {_count(len(gathered) - len(asked))}: new ran the gate tier")
    if len(judged) < len(asked):
        notes.append(f"not judged, {_count(len(asked) - len(judged))}: the time is the host's as much as the GPU's")
    return judged, tuple(notes)


def _count(cases: int) -> str:
    return "1 case" if cases == 1 else f"{cases} cases"


def _not_asked(case: CaseEvidence, base: Side, new: Side) -> bool:
    """Whether NEW ran the gate tier and the case is not in it, for which a mark in one run file is not enough."""
    if case.new.known or not case.base.results:
        return False
    in_the_gate = any(run.tier == "gate" and case.case in run.cases for run in base.runs)
    beyond_the_gate = case.base.results[-1].tier == "full" and not in_the_gate
    return beyond_the_gate and all(run.tier == "gate" for run in new.runs)


def _host_bound(case: CaseEvidence) -> bool:
    """Whether every run that timed the case says so: one side's word must not hide a slower case. Wrong ones count."""
    timed = (*case.base.results, *case.new.results)
    return bool(timed) and all(result.host_bound for result in timed) and case.new.wrong is None
