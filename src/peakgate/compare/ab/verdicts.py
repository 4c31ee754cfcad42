"""Gives every case of an experiment's record its verdict; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd

from peakgate.base.formatting import counted, percent
from peakgate.base.verdict import FAULTY, Judgement, Verdict
from peakgate.compare import spread
from peakgate.compare.ab.asides import energy_notes, kernel_notes, tuner_notes
from peakgate.compare.ab.decide import CaseStatus, Together, interval, moved_together
from peakgate.compare.ab.record import (
    AbRecord,
    Times,
    by_metric,
    compared_us,
    decisions,
    log_ratios,
    mentioned,
    refusal,
    screened_pairs,
    timed,
    times,
    usable,
)
from peakgate.compare.ab.schedule import Phase, Side
from peakgate.compare.evidence import causes, differences
from peakgate.compare.judge import FEWEST_CASES_FOR_SUITE
from peakgate.compare.result import (
    MEASURED,
    WORST_FIRST,
    Comparison,
    SpreadFinding,
    SuiteShift,
    change_text,
    direction,
    in_percent,
    probability,
    shift_percent,
    side_by_side,
)
from peakgate.runfile import find
from peakgate.runfile.frame import records, run_rows, tidy, to_frame
from peakgate.runfile.saved import Run

# A case whose smallest detectable shift is larger is INCONCLUSIVE.
WIDEST_PAIRS_RESOLVABLE = math.log1p(0.05)


def comparison(record: AbRecord) -> Comparison:
    """The comparison of both sides: a verdict per case, the suite's shift, differences between the runs, and notes."""
    base, head = (_side(record, which) for which in Side)
    decided = decisions(record).query("status != ''").set_index("case", drop=False)
    found = _judged(record, {each.case: each for each in records(decided)})
    low, high = interval(decided)
    judgements = pd.DataFrame([asdict(each.judgement) for each in found.values()], pd.Index(found))
    measured = all(record.side_runs(which) for which in Side)
    frame = side_by_side(
        _measurements({case: each.base for case, each in found.items()}),
        _measurements({case: each.head for case, each in found.items()}),
        judgements.join(in_percent(decided.assign(low=low, high=high))),
        suite=_suite(record),
        differences=differences(run_rows(base.runs), run_rows(head.runs)) if measured else (),
        notes=_notes(record),
        spread=_grown(record),
    )
    return Comparison(base, head, frame)


def _grown(record: AbRecord) -> list[SpreadFinding]:
    """The cases of the GPU's time that vary more in head than in base, between processes or within them."""
    cases = pd.Index(by_metric(record, record.plan.measured)[0])
    sides = [record.side_runs(which, proof=False) for which in Side]
    if cases.empty or not all(sides):
        return []
    runs = [run for side in sides for run in side]
    compared = zip(runs, compared_us([timed(run) for run in runs]), strict=True)
    known = {(str(run.path), case): time_us for run, times_us in compared for case, time_us in times_us.items()}
    spreads = []
    for rows in map(to_frame, sides):
        compared_times_us = [known.get(key, math.nan) for key in zip(rows["run"], rows["case"], strict=True)]
        spreads.append(spread.of_rows(rows.assign(time_us=compared_times_us), cases))
    return spread.grown(cases.to_list(), *spreads)


class CaseFound(NamedTuple):
    """The verdict on a case, and its times on both sides."""

    judgement: Judgement
    base: Times = Times(())
    head: Times = Times(())


def _judged(record: AbRecord, decided: Mapping[str, SimpleNamespace]) -> dict[str, CaseFound]:
    """Every case with its verdict; ``decided`` has the rows of ``decisions`` for cases with enough pairs."""
    plan, refused = record.plan, _run_nowhere(record)
    unsteady = (watched := _sentinels(record)) is not None and watched.moved
    found = {}
    for case in plan.timed:
        if case not in refused:
            base, head = (times(record, which, case) for which in Side)
            judgement = _judge(record, case, decided.get(case), base, head, unsteady=unsteady)
            sides = base.results, head.results
            notes = [*tuner_notes(*sides), *kernel_notes(*sides), *energy_notes(*sides)]
            new = [note for note in notes if note not in judgement.reason]
            found[case] = CaseFound(replace(judgement, reason="; ".join([judgement.reason, *new])), base, head)
    for case, equal in (plan.unchanged or {}).items():
        found[case] = CaseFound(Judgement(Verdict.SAME, f"unchanged ({equal}): not measured"))
    for case in plan.base_only:
        found[case] = CaseFound(Judgement(Verdict.MISSING, "in base, not in head"))
    for cases, why in ((plan.head_only, "not in base"), (plan.mended, "does not build in base")):
        found |= {case: _head_alone(record, case, why) for case in cases}
    for cases, verdict, why in (
        (plan.broken, Verdict.INCONCLUSIVE, "builds on neither side"),
        (plan.lost, Verdict.MISSING, "builds in base, not in head"),
    ):
        for case in cases:
            wrong = _faulty(record, Side.HEAD, case)  # in records of earlier versions
            reason = refusal(record, Side.HEAD, case, (Verdict.INCONCLUSIVE,))
            found[case] = CaseFound(wrong or Judgement(verdict, f"{why}; {reason}" if reason else why))
    return found


def _measurements(side: Mapping[str, Times]) -> pd.DataFrame:
    """One side's measurements of the cases, with the columns MEASURED."""
    known = [(each, vars(each.typical) if each.results else {}) for each in side.values()]
    rows = [{name: row.get(name) for name in MEASURED} | {"sessions": len(each.results)} for each, row in known]
    return tidy(rows, MEASURED).set_axis(pd.Index(side))


def _run_nowhere(record: AbRecord) -> list[str]:
    """Cases that no run mentions, because the GPU cannot run them on either side; they may be too large for it."""
    if not _proven(record):
        return []
    return [case for case in record.plan.timed if not any(mentioned(record, which, case) for which in Side)]


def _proven(record: AbRecord) -> bool:
    """Whether the proof of both sides has run."""
    return {process.which for process in record.of(Phase.PROOF)} == set(Side)


def _screening(record: AbRecord, case: str) -> bool:
    """Whether the experiment stopped while this case was still being screened."""
    if screened_pairs(record) >= record.settings.pairs or record.of(Phase.CONFIRM):
        return False
    latest = [record.runs[process.file] for process in record.of(Phase.SCREEN) if process.file][-1:]
    return all(case in run.cases or case in run.unmeasured for run in latest)


def _settled(record: AbRecord, case: str) -> Judgement | None:
    """A verdict that needs no times; None if the times decide."""
    wrong = _faulty(record, Side.HEAD, case)
    if wrong is not None:
        return wrong
    wrong_before = _faulty(record, Side.BASE, case)
    if wrong_before is not None:
        return Judgement(Verdict.NEW, f"wrong in base ({wrong_before.reason}), right in head")
    if _proven(record) and not mentioned(record, Side.HEAD, case):
        return Judgement(Verdict.MISSING, "runs in base; this GPU cannot run head's")
    return None


def _faulty(record: AbRecord, which: Side, case: str) -> Judgement | None:
    """The worst fault that a side's processes found in the case; None if there is none."""
    found = ((verdict, refusal(record, which, case, (verdict,))) for verdict in WORST_FIRST if verdict in FAULTY)
    return next((Judgement(verdict, reason) for verdict, reason in found if reason is not None), None)


def _judge(
    record: AbRecord, case: str, decision: SimpleNamespace | None, base: Times, head: Times, *, unsteady: bool
) -> Judgement:
    settled = _settled(record, case)
    if settled is not None:
        return settled
    if case in record.plan.sentinels:
        measured = "not measured" if decision is None else f"as a sentinel {reported(decision)}"
        if unsteady:
            return Judgement(Verdict.INCONCLUSIVE, f"unchanged, and moved with the other sentinels; {measured}")
        return Judgement(Verdict.SAME, f"unchanged; {measured}")
    if record.stopped and _screening(record, case):
        pairs = f"{screened_pairs(record)} of {record.settings.pairs} pairs"
        return Judgement(Verdict.INCONCLUSIVE, f"{record.stopped} after {pairs}")
    if decision is None:
        untimed = [(which, refusal(record, which, case, (Verdict.INCONCLUSIVE,))) for which in Side]
        reasons = "; ".join(f"{which}: {reason}" for which, reason in untimed if reason)
        return Judgement(Verdict.INCONCLUSIVE, reasons or "timed in too few pairs")
    return _decided(record, decision, base, head)


def _decided(record: AbRecord, decision: SimpleNamespace, base: Times, head: Times) -> Judgement:
    found = reported(decision)
    if decision.status == CaseStatus.FLAGGED:
        also = causes(base.typical, head.typical)
        assert decision.p_value is not None, "a case is flagged at a look, and a look gives it one"
        certain = f"{change_text(shift_percent(decision.log_ratio))}, {found}, {probability(decision.p_value)}"
        return Judgement(direction(decision.direction), "; ".join([certain, *also]))
    if decision.status == CaseStatus.OPEN:
        why = record.stopped or "more pairs would decide: raise --pairs"
        suspected = direction(decision.direction).lower()
        return Judgement(Verdict.INCONCLUSIVE, f"suspected {suspected}, {found}; {why}")
    if decision.resolvable > WIDEST_PAIRS_RESOLVABLE:
        unseen = percent(shift_percent(decision.resolvable))
        return Judgement(Verdict.INCONCLUSIVE, f"{found}: too noisy, {unseen} would not be detected")
    again = "was suspected; measured again " if decision.direction else ""
    return Judgement(Verdict.SAME, f"{again}{found}")


def _head_alone(record: AbRecord, case: str, why: str) -> CaseFound:
    """The verdict on a case that only head can run: NEW if it was proven and timed, or what is wrong with it."""
    wrong = _faulty(record, Side.HEAD, case)
    if wrong is not None:
        return CaseFound(wrong)
    result = next((found for run in record.side_runs(Side.HEAD) if (found := usable(run, case))), None)
    if result is None:
        reason = refusal(record, Side.HEAD, case, (Verdict.INCONCLUSIVE,)) or record.stopped or "not timed"
        return CaseFound(Judgement(Verdict.INCONCLUSIVE, f"{why}; {reason}"))
    return CaseFound(Judgement(Verdict.NEW, f"{why}, right in head"), head=Times((result,)))


def reported(estimate: SimpleNamespace) -> str:
    """``+1.02 % over 14 pairs (99 % interval +0.91 to +1.13)``, of a row of ``estimates``."""
    low, high = map(shift_percent, interval(estimate))
    shift = shift_percent(estimate.log_ratio)
    return f"{shift:+.2f} % over {counted(estimate.pairs, 'pair')} (99 % interval {low:+.2f} to {high:+.2f})"


def _suite(record: AbRecord) -> SuiteShift | None:
    """Whether the median of the changed cases moved, of the GPU's times; not subtracted from any of them."""
    measured = by_metric(record, record.plan.measured)[0]
    together = moved_together(log_ratios(record, Phase.SCREEN, measured)) if measured else None
    if together is None or together.cases < FEWEST_CASES_FOR_SUITE:
        return None
    verdict = direction(together.estimate.log_ratio) if together.moved else Verdict.SAME
    reason = f"the median of {together.cases} cases {reported(together.estimate)}"
    figures = map(shift_percent, (together.estimate.log_ratio, together.resolvable))
    return SuiteShift(verdict, reason, together.cases, *figures)


def _notes(record: AbRecord) -> list[str]:
    notes = list(record.notes)
    plan = record.plan
    if record.stopped:
        notes.append(f"{record.stopped}: cases not decided by then are INCONCLUSIVE")
    if refused := _run_nowhere(record):
        left = counted(len(refused), "case")
        notes.append(f"{left} left out: this GPU cannot run them on either side, {refused[0]} first")
    if plan.unchanged:
        same = counted(len(plan.unchanged), "case")
        notes.append(f"{same} unchanged (machine code, launch, inputs, reference) and not measured")
    watched = _sentinels(record)
    if watched is not None:
        found = f"{counted(watched.cases, 'unchanged sentinel')}, {reported(watched.estimate)}"
        moved = f"environment not steady, the sentinels moved: {found}; measure again on an idle machine"
        notes.append(moved if watched.moved else f"environment steady: {found}")
    return notes


def _sentinels(record: AbRecord) -> Together | None:
    if not record.plan.sentinels:
        return None
    pairs = [log_ratios(record, stage, record.plan.sentinels) for stage in (Phase.SCREEN, Phase.CONFIRM)]
    return moved_together(np.concatenate(pairs, axis=1))


def _side(record: AbRecord, which: Side) -> find.RunSide:
    """The side's runs as its sessions: those whose times count, else the proof, else an empty placeholder."""
    side = record.base if which is Side.BASE else record.head
    runs = record.side_runs(which, proof=False) or record.side_runs(which)
    not_run = Run(
        path=record.folder,
        taken=datetime.now(UTC),
        commit=side.commit or "unknown",
        dirty=side.dirty,
        benchmark_version="not run",
        tier=None,
        device=None,
        whole=False,
        gpu={"slug": "not run"},
        cases={},
        unmeasured={},
    )
    return find.RunSide(side.label, tuple(runs or [not_run]))
