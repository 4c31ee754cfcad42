"""The record of an experiment: its processes, the pairs that they make, and what the pairs decide.

Its files are a manifest and a run file per process and side, enough to decide again without measuring. A pair gives
each case one log ratio: it is one process of each side, or one of several that a process samples in turns.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Literal

import msgspec
import numpy as np
import pandas as pd
from msgspec import Meta, Struct, structs

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import write_whole
from peakgate.base.formatting import short
from peakgate.base.verdict import Verdict
from peakgate.compare.ab.decide import decide
from peakgate.compare.ab.folders import SideFolder
from peakgate.compare.ab.means import AB_FOLDER, MANIFEST
from peakgate.compare.ab.plan import Plan
from peakgate.compare.ab.schedule import Phase, Side, looks
from peakgate.compare.noise import Floats
from peakgate.runfile.saved import UNUSABLE, CaseResult, Run, load_run

INTERRUPTED = "interrupted"  # why an experiment ended that someone stopped


FileName = Annotated[str, Meta(pattern=r"^(?!\.\.?\Z)[^/\0]+\Z", description="a file of the manifest's folder")]


class PairSettings(Struct, frozen=True):
    """Settings given by the user."""

    tier: str
    device: str
    pairs: int
    confirm_pairs: int


class Process(Struct, frozen=True, forbid_unknown_fields=True):
    """One process, in the order they ran: what for, in which pair (from 0), on which side.

    One that samples both sides in turns gives ``pairs`` of them, the first of which is ``pair``. ``file`` is its run
    file in the manifest's folder, None where it timed nothing. ``refused`` are verdict and reason of cases that a
    process without a run file could not time.
    """

    stage: Phase
    pair: int
    which: Side
    file: FileName | None
    exit_code: int
    seconds: records.Number
    refused: Mapping[str, tuple[Verdict, str]]
    pairs: int = 1


class SideLabel(Struct, frozen=True):
    """One side as the manifest names it."""

    label: str
    commit: str | None
    dirty: bool


class Manifest(Struct, frozen=True):
    """The file of an experiment."""

    schema: Literal[1]
    base: SideLabel
    head: SideLabel
    settings: PairSettings
    plan: Plan
    notes: list[str]
    stopped: str | None
    processes: list[Process]


@dataclass
class AbRecord:
    """One experiment as far as it got: sides, settings, plan, processes.

    ``stopped`` says why it ended before everything was decided; None when it did not. ``runs`` are the run files of
    ``processes``, by name.
    """

    base: SideFolder
    head: SideFolder
    settings: PairSettings
    plan: Plan
    processes: list[Process] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stopped: str | None = None
    runs: dict[str, Run] = field(default_factory=dict)

    @property
    def interrupted(self) -> bool:
        """Whether someone stopped it."""
        return self.stopped == INTERRUPTED

    def of(self, stage: Phase) -> list[Process]:
        """The processes of one stage, as they ran."""
        return [process for process in self.processes if process.stage is stage]

    def side_runs(self, which: Side, *, proof: bool = True) -> list[Run]:
        """Every run file of a side, as they were taken; without the ``proof`` those whose times count."""
        counted = [each for each in self.processes if each.which is which and (proof or each.stage is not Phase.PROOF)]
        return [self.runs[process.file] for process in counted if process.file]

    def save(self, folder: Path) -> None:
        """Write the manifest; the run files are there already."""
        base, head = (SideLabel(side.label, side.commit, side.dirty) for side in (self.base, self.head))
        manifest = Manifest(1, base, head, self.settings, self.plan, self.notes, self.stopped, self.processes)
        write_whole(folder / MANIFEST, json.dumps(msgspec.to_builtins(manifest), indent=1) + "\n")


def load_record(folder: Path) -> AbRecord:
    """Read an experiment back from its folder, or from the folder that holds it; a PeakgateError names mistakes."""
    path = next((at for at in (folder / MANIFEST, folder / AB_FOLDER / MANIFEST) if at.is_file()), None)
    if path is None:
        raise PeakgateError(
            f"{folder}: no {MANIFEST} in it, as beside the run files; name the output folder of `peakgate ab`",
            Code.WHICH_RUN,
        )
    found = records.read(path, Manifest, "restore it, use the version that wrote it, or measure again")
    base, head = (
        SideFolder(side.label, path.parent, side.commit, dirty=side.dirty) for side in (found.base, found.head)
    )
    record = AbRecord(base, head, found.settings, found.plan, found.processes, found.notes, found.stopped)
    record.runs = {process.file: load_run(path.parent / process.file) for process in record.processes if process.file}

    # A manifest that is empty, or whose plan lacks a case that its processes ran.
    plan = record.plan
    planned = {*plan.head_runs, *plan.base_only}
    if not planned and not plan.unchanged:
        raise PeakgateError(f"{path}: no case in its plan; restore it or measure again", Code.NO_RUN)
    ran = {case for run in record.runs.values() for case in (*run.cases, *run.unmeasured)}
    ran |= {case for process in record.processes for case in process.refused}
    if lost := sorted(ran - planned):
        raise PeakgateError(
            f"{path}: {short(lost[0])} was run, but is not in its plan; restore it or measure again",
            Code.NO_RUN,
        )
    return record


@dataclass(frozen=True, slots=True)
class Times:
    """Times of one case in one side's processes, oldest first; without the proof, which is not used."""

    results: tuple[CaseResult, ...]

    @property
    def log_time(self) -> float:
        """Mean of the log medians in microseconds."""
        return float(np.mean([math.log(result.time_us) for result in self.results]))

    @property
    def typical(self) -> SimpleNamespace:
        """The latest result with the typical time and clock of all of them; there must be one."""
        clocks = [result.sm_clock_mhz for result in self.results if result.sm_clock_mhz is not None]
        return SimpleNamespace(
            **structs.asdict(self.results[-1])
            | {"time_us": math.exp(self.log_time), "sm_clock_mhz": statistics.median(clocks) if clocks else None}
        )


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

    Times are trimmed means: samples have several values by their place in the batch, and the timer has steps, so a
    median jumps between them.
    """
    found = [result for case in run.cases if (result := usable(run, case))]
    return [Timed(each.case, each.trimmed_mean_us or each.time_us, each.control_us) for each in found]


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
    processes = _whole_pairs(record, stage)
    times_us = compared_us([timed(run) for each in processes for run in each[1:]])
    columns = []
    for (pairs, _, run), base, head in zip(processes, times_us[::2], times_us[1::2], strict=True):
        found = np.full((len(cases), pairs), np.nan)
        for row, case in enumerate(cases):
            if case in base and case in head:
                in_turns = run.cases[case].pair_ratios
                ratios = (head[case] / base[case],) if in_turns is None else in_turns[:pairs]
                found[row, : len(ratios)] = np.log(ratios)
        columns.append(found)
    return np.hstack(columns) if columns else np.empty((len(cases), 0))


def whole_pairs(record: AbRecord, stage: Phase) -> int:
    """How many pairs of the stage both sides finished."""
    return sum(pairs for pairs, _, _ in _whole_pairs(record, stage))


def _whole_pairs(record: AbRecord, stage: Phase) -> list[tuple[int, Run, Run]]:
    """Base's and head's run of every process that both finished, or of both sides' in one, and how many pairs it is."""
    base, head = (
        {
            process.pair: (process.pairs, record.runs[process.file])
            for process in record.of(stage)
            if process.which is which and process.file
        }
        for which in Side
    )
    return [(base[pair][0], base[pair][1], head[pair][1]) for pair in sorted(base.keys() & head.keys())]


def times(record: AbRecord, which: Side, case: str) -> Times:
    """The case on one side, over the processes whose times count."""
    runs = record.side_runs(which, proof=False)
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
