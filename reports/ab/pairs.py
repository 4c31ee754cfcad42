"""From processes to pairs, one log ratio a case a pair, and from pairs to what they decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from peakgate.reports.ab.decide import Decision, decide
from peakgate.reports.ab.schedule import Phase, Side, looks
from peakgate.reports.ab.store import Record
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.runs.runfile import UNUSABLE, CaseResult, Run

if TYPE_CHECKING:
    import pandas as pd


Number = TypeVar("Number", float, "pd.Series[float]")


@dataclass(frozen=True, slots=True)
class Times:
    """What one side's processes timed of one case, oldest first; the stages that count, not the proof."""

    results: tuple[CaseResult, ...]

    @property
    def log_time(self) -> float:
        """Mean of the log medians in microseconds."""
        return float(np.mean([math.log(result.time_us) for result in self.results]))


def usable(run: Run, case: str) -> CaseResult | None:
    """The case's result, unless the run itself distrusts it."""
    result = run.cases.get(case)
    distrusted = result is None or case in run.unmeasured or result.verdict in UNUSABLE
    return None if distrusted else result


def log_ratios(record: Record, stage: Phase, cases: Sequence[str]) -> Floats:
    """ln(head / base) by case (row) and whole pair of the stage (column); NaN where a side has no time."""
    pairs = whole_pairs(record, stage)
    found = np.full((len(cases), len(pairs)), np.nan)
    for column, (base, head) in enumerate(pairs):
        for row, case in enumerate(cases):
            before, after = usable(base, case), usable(head, case)
            if before and after:
                found[row, column] = log_ratio(before, after)
    return found


def log_ratio(base: CaseResult, head: CaseResult) -> float:
    """ln(head / base) of two processes' times of a case, less what they differ by in launching any kernel.

    The time of every kernel has a part that is a process's own: its standard deviation is some 80 ns on an H200, as
    much for a kernel of 5 µs as for one of 50 µs. Both processes measured it on the control kernel (``control_us``),
    so their times are compared as if both had the mean of the two. Trimmed means are compared, medians where a run has
    none. NaN where nothing is left of a time.
    """
    before, after = (each.time_us if each.trimmed_mean_us is None else each.trimmed_mean_us for each in (base, head))
    if base.control_us is not None and head.control_us is not None:
        typical_us = (base.control_us + head.control_us) / 2
        before = without_overhead(before, base.control_us, typical_us)
        after = without_overhead(after, head.control_us, typical_us)
    return math.log(after / before) if min(before, after) > 0 else math.nan


def without_overhead(time_us: Number, control_us: Number, typical_us: float) -> Number:
    """What a process would have measured if launching a kernel took as long in it as is typical."""
    return time_us - (control_us - typical_us)


def whole_pairs(record: Record, stage: Phase) -> list[tuple[Run, Run]]:
    """Base's and head's run of every pair of the stage that both finished, in order."""
    base, head = (
        {
            process.pair: record.runs[process.file]
            for process in record.of(stage)
            if process.which is which and process.file
        }
        for which in Side
    )
    return [(base[pair], head[pair]) for pair in sorted(base.keys() & head.keys())]


def times(record: Record, which: Side, case: str) -> Times:
    """The case on one side, over the processes whose times count."""
    counted = [process for process in record.processes if process.which is which and process.stage is not Phase.PROOF]
    runs = [record.runs[process.file] for process in counted if process.file]
    return Times(tuple(result for run in runs if (result := usable(run, case))))


def refusal(record: Record, which: Side, case: str, verdicts: Sequence[str]) -> str | None:
    """Why a side has no time of the case, from the latest process that gave one of these verdicts."""
    said = None
    for process in record.processes:
        if process.which is not which:
            continue
        reported = process.refused.get(case)
        if reported is None and process.file and case in record.runs[process.file].unmeasured:
            unmeasured = record.runs[process.file].unmeasured[case]
            reported = (unmeasured.verdict, unmeasured.reason)
        if reported is not None and reported[0] in verdicts:
            said = reported[1] or reported[0].lower()
    return said


def mentioned(record: Record, which: Side, case: str) -> bool:
    """Whether any process of the side timed the case or said why not."""
    runs = record.side_runs(which)
    return any(case in run.cases or case in run.unmeasured for run in runs) or any(
        case in process.refused for process in record.processes if process.which is which
    )


def decisions(record: Record) -> dict[str, Decision | None]:
    """What the pairs there are say of every case that both sides timed; None where fewer than two screened it."""
    cases = record.plan.timed
    if not cases:
        return {}
    screen, confirm = (log_ratios(record, stage, cases) for stage in (Phase.SCREEN, Phase.CONFIRM))
    log_time = np.array([_log_time(record, case) for case in cases])
    judged = [case not in record.plan.sentinels for case in cases]
    decided = decide(screen, confirm, log_time, looks(record.settings.confirm_pairs), judged)
    return dict(zip(cases, decided, strict=True))


def _log_time(record: Record, case: str) -> float:
    known = times(record, Side.BASE, case)
    return known.log_time if known.results else 0.0
