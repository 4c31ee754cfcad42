"""From processes to pairs, one log ratio a case a pair, and from pairs to what they decide."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from peakgate.reports.ab.decide import decide
from peakgate.reports.ab.schedule import Phase, Side, looks
from peakgate.reports.ab.store import AbRecord
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.runs.runfile import UNUSABLE, CaseResult, Run


@dataclass(frozen=True, slots=True)
class Times:
    """Times of one case in one side's processes, oldest first; without the proof, which is not used."""

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


@dataclass(frozen=True, slots=True)
class Timed:
    """One case in one process: its time, and the control kernel's right after it; None where that was not timed."""

    case: str
    time_us: float
    control_us: float | None


def timed(run: Run) -> list[Timed]:
    """The usable cases of a process in the order they were measured.

    Times are medians, of short kernels trimmed means: their samples have several values by their place in the batch,
    and the median jumps between them.
    """
    found = [result for case in run.cases if (result := usable(run, case))]
    return [
        Timed(each.case, (each.control_us and each.trimmed_mean_us) or each.time_us, each.control_us) for each in found
    ]


def compared_us(processes: Sequence[Sequence[Timed]]) -> list[dict[str, float]]:
    """Compared times of every process, adjusted to equal launch overhead.

    Launching any kernel takes a time that differs by some 80 ns between processes on an H200, as much for a kernel of
    5 µs as for one of 50 µs, and moves now and then while a process lives (lab/injected/README.md). A process timed
    the control kernel after each short case: what the mean of the controls before and after a case differs by from the
    median of all is subtracted.
    """
    controls_us = [_controls_us(process) for process in processes]
    typical_us = statistics.median([each for found in controls_us for each in found.values()] or [0.0])
    return [
        {
            each.case: time_us
            for each in process
            if (time_us := each.time_us - found.get(each.case, typical_us) + typical_us) > 0
        }
        for process, found in zip(processes, controls_us, strict=True)
    ]


def _controls_us(process: Sequence[Timed]) -> dict[str, float]:
    """The control kernel's time by short case: the mean of the one before it, after another case, and its own."""
    controls = [(each.case, each.control_us) for each in process if each.control_us]
    before = [control_us for _, control_us in controls[:1] + controls]
    return {case: (control_us + earlier) / 2 for (case, control_us), earlier in zip(controls, before, strict=False)}


def log_ratios(record: AbRecord, stage: Phase, cases: Sequence[str]) -> Floats:
    """ln(head / base) by case (row) and whole pair of the stage (column); NaN where a side has no time."""
    pairs = whole_pairs(record, stage)
    found = np.full((len(cases), len(pairs)), np.nan)
    times_us = compared_us([timed(run) for pair in pairs for run in pair])
    for column, (base, head) in enumerate(zip(times_us[::2], times_us[1::2], strict=True)):
        for row, case in enumerate(cases):
            if case in base and case in head:
                found[row, column] = math.log(head[case] / base[case])
    return found


def whole_pairs(record: AbRecord, stage: Phase) -> list[tuple[Run, Run]]:
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


def times(record: AbRecord, which: Side, case: str) -> Times:
    """The case on one side, over the processes whose times count."""
    counted = [process for process in record.processes if process.which is which and process.stage is not Phase.PROOF]
    runs = [record.runs[process.file] for process in counted if process.file]
    return Times(tuple(result for run in runs if (result := usable(run, case))))


def refusal(record: AbRecord, which: Side, case: str, verdicts: Sequence[str]) -> str | None:
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


def mentioned(record: AbRecord, which: Side, case: str) -> bool:
    """Whether any process of the side timed the case or said why not."""
    runs = record.side_runs(which)
    return any(case in run.cases or case in run.unmeasured for run in runs) or any(
        case in process.refused for process in record.processes if process.which is which
    )


def decisions(record: AbRecord) -> pd.DataFrame:
    """Decision from the present pairs for every case that both sides timed, by case; its columns are of ``decide``."""
    cases = record.plan.timed
    screen, confirm = (log_ratios(record, stage, cases) for stage in (Phase.SCREEN, Phase.CONFIRM))
    log_time = log_times(record, cases)
    judged = [case not in record.plan.sentinels for case in cases]
    decided = decide(screen, confirm, log_time, looks(record.settings.confirm_pairs), judged)
    return decided.assign(case=cases)


def log_times(record: AbRecord, cases: Sequence[str]) -> Floats:
    """Each case's mean log time on the base side; 0 where the base has no time of it."""
    known = [times(record, Side.BASE, case) for case in cases]
    return np.array([each.log_time if each.results else 0.0 for each in known])
