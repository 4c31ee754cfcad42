"""The record of an experiment: its processes, their pairs, and the decision from them.

It is saved as a manifest and one run file per process and side, which suffice to decide again without measuring. A pair
gives each case one log ratio; it is one process of each side, or one of several in a process that alternates.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Literal

import msgspec
import numpy as np
import pandas as pd
from msgspec import Meta, Struct, field, structs

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import write_whole
from peakgate.base.formatting import short
from peakgate.base.verdict import Verdict
from peakgate.compare.ab.decide import decide
from peakgate.compare.ab.folders import SideLabel
from peakgate.compare.ab.means import AB_FOLDER, MANIFEST
from peakgate.compare.ab.plan import Plan
from peakgate.compare.ab.schedule import Phase, Side, looks
from peakgate.compare.noise import Floats
from peakgate.runfile.saved import UNUSABLE, CaseResult, Run, load_run

INTERRUPTED = "interrupted"  # ``stopped`` of an experiment that Ctrl-C ended


FileName = Annotated[str, Meta(pattern=r"^(?!\.\.?\Z)[^/\0]+\Z", description="a file of the manifest's folder")]


class PairSettings(Struct, frozen=True):
    """Settings that the user chose."""

    tier: str
    device: str
    pairs: int
    confirm_pairs: int


class Process(Struct, frozen=True, forbid_unknown_fields=True):
    """One process: its phase, its pair (from 0) and its side.

    A process that alternates between both sides holds ``pairs`` of them, the first of which is ``pair``. ``file`` is
    its run file in the manifest's folder, None if it timed nothing. ``refused`` holds verdict and reason of the cases
    that a process without a run file could not time.
    """

    stage: Phase
    pair: int
    which: Side
    file: FileName | None
    exit_code: int
    seconds: records.Number
    refused: Mapping[str, tuple[Verdict, str]]
    pairs: int = 1


class Manifest(Struct, kw_only=True):
    """The file of an experiment, possibly incomplete: its processes are in the order they ran.

    ``stopped`` says why it ended before everything was decided, None if it did not.
    """

    schema: Literal[1]
    base: SideLabel
    head: SideLabel
    settings: PairSettings
    plan: Plan
    notes: list[str]
    stopped: str | None
    processes: list[Process]


class AbRecord(Manifest, kw_only=True):
    """One experiment: its manifest, the ``folder`` of it, and the run files of its processes there, by name."""

    folder: Path
    runs: dict[str, Run] = field(default_factory=dict)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C stopped it."""
        return self.stopped == INTERRUPTED

    def of(self, stage: Phase) -> list[Process]:
        """The processes of one phase, in the order they ran."""
        return [process for process in self.processes if process.stage is stage]

    def side_runs(self, which: Side, *, proof: bool = True) -> list[Run]:
        """The runs of a side in order; without ``proof`` only those whose times count."""
        counted = [each for each in self.processes if each.which is which and (proof or each.stage is not Phase.PROOF)]
        return [self.runs[process.file] for process in counted if process.file]

    def save(self) -> None:
        """Write the manifest; the run files exist already."""
        manifest = {name: getattr(self, name) for name in Manifest.__struct_fields__}
        write_whole(self.folder / MANIFEST, json.dumps(msgspec.to_builtins(manifest), indent=1) + "\n")


def load_record(folder: Path) -> AbRecord:
    """Read an experiment from its folder or that folder's parent; a PeakgateError names what is wrong."""
    path = next((at for at in (folder / MANIFEST, folder / AB_FOLDER / MANIFEST) if at.is_file()), None)
    if path is None:
        raise PeakgateError(
            f"{folder}: no {MANIFEST} in it; name the output folder of `peakgate ab`",
            Code.WHICH_RUN,
        )
    found = records.read(path, Manifest, "restore it, use the version that wrote it, or measure again")
    runs = {process.file: load_run(path.parent / process.file) for process in found.processes if process.file}
    record = AbRecord(**structs.asdict(found), folder=path.parent, runs=runs)

    # Refuse an empty plan, and one that lacks a case that the processes ran.
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
    """Results of one case in one side's processes, oldest first, without the proof."""

    results: tuple[CaseResult, ...]

    @property
    def log_time(self) -> float:
        """Mean of the log medians in microseconds."""
        return float(np.mean([math.log(result.time_us) for result in self.results]))

    @property
    def typical(self) -> SimpleNamespace:
        """The latest result with the geometric mean time and median clock of all; there must be one."""
        clocks = [result.sm_clock_mhz for result in self.results if result.sm_clock_mhz is not None]
        return SimpleNamespace(
            **structs.asdict(self.results[-1])
            | {"time_us": math.exp(self.log_time), "sm_clock_mhz": statistics.median(clocks) if clocks else None}
        )


def usable(run: Run, case: str) -> CaseResult | None:
    """The case's result; None if the run itself marks it as unusable."""
    result = run.cases.get(case)
    distrusted = result is None or case in run.unmeasured or result.verdict in UNUSABLE
    return None if distrusted else result


@dataclass(frozen=True, slots=True)
class Timed:
    """One case in one process: its time, and that of the control kernel right after it, None if not timed."""

    case: str
    time_us: float
    control_us: float | None


def timed(run: Run) -> list[Timed]:
    """The usable cases of a process in the order they were measured.

    Times are trimmed means: samples cluster by their position in the batch and by the timer's resolution, and a median
    would jump between clusters.
    """
    found = [result for case in run.cases if (result := usable(run, case))]
    return [Timed(each.case, each.trimmed_mean_us or each.time_us, each.control_us) for each in found]


def compared_us(processes: Sequence[Sequence[Timed]]) -> list[dict[str, float]]:
    """Times of every process by case, adjusted to equal launch overhead.

    The launch overhead of any kernel varies by about 80 ns between processes on an H200, whatever the kernel's
    duration, and changes now and then within a process (lab/injected/README.md). A process times the control kernel
    after each short case. The mean of the controls before and after a case, less the median of all controls, is
    subtracted from the case's time.
    """
    controls_us = []
    for process in processes:
        controls = [(each.case, each.control_us) for each in process if each.control_us]
        earlier_us = [control_us for _, control_us in controls[:1] + controls]
        both = zip(controls, earlier_us, strict=False)
        controls_us.append({case: (control_us + before_us) / 2 for (case, control_us), before_us in both})
    typical_us = statistics.median([each for found in controls_us for each in found.values()] or [0.0])
    return [
        {
            each.case: time_us
            for each in process
            if (time_us := each.time_us - found.get(each.case, typical_us) + typical_us) > 0
        }
        for process, found in zip(processes, controls_us, strict=True)
    ]


def log_ratios(record: AbRecord, stage: Phase, cases: Sequence[str]) -> Floats:
    """ln(head / base) by case (row) and complete pair of the phase (column); NaN if a side has no time."""
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


def screened_pairs(record: AbRecord) -> int:
    """The number of screening pairs that both sides finished."""
    return sum(pairs for pairs, _, _ in _whole_pairs(record, Phase.SCREEN))


def _whole_pairs(record: AbRecord, stage: Phase) -> list[tuple[int, Run, Run]]:
    """Number of pairs, base's run and head's run of every process, or pair of processes, that both sides finished."""
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
    """The case's results on one side, over the processes whose times count."""
    runs = record.side_runs(which, proof=False)
    return Times(tuple(result for run in runs if (result := usable(run, case))))


def refusal(record: AbRecord, which: Side, case: str, verdicts: Sequence[str]) -> str | None:
    """Why a side has no time of the case: the reason of the latest process that gave one of these verdicts."""
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
    """Whether any process of the side timed the case or reported why not."""
    runs = record.side_runs(which)
    return any(case in run.cases or case in run.unmeasured for run in runs) or any(
        case in process.refused for process in record.processes if process.which is which
    )


def by_metric(record: AbRecord, cases: Sequence[str]) -> tuple[list[str], list[str]]:
    """The cases of the GPU's time, and those of the host's: their noise differs, so they are judged separately."""
    runs = record.runs.values()
    of_host = {case for run in runs for case, result in run.cases.items() if result.metric == "launch"}
    return [case for case in cases if case not in of_host], [case for case in cases if case in of_host]


def decisions(record: AbRecord) -> pd.DataFrame:
    """``decide`` on the pairs so far, one row per timed case of the plan, with the column ``case``."""
    decided = []
    on_gpu, on_host = by_metric(record, record.plan.timed)
    for cases in (on_gpu, on_host) if on_gpu and on_host else (record.plan.timed,):
        screen, confirm = (log_ratios(record, stage, cases) for stage in (Phase.SCREEN, Phase.CONFIRM))
        judged = [case not in record.plan.sentinels for case in cases]
        of_pairs = screen, confirm, log_times(record, cases), looks(record.settings.confirm_pairs), judged
        decided.append(decide(*of_pairs).assign(case=cases))
    return pd.concat(decided, ignore_index=True)


def log_times(record: AbRecord, cases: Sequence[str]) -> Floats:
    """Each case's mean log time in base; 0 if base has no time of it."""
    known = [times(record, Side.BASE, case) for case in cases]
    return np.array([each.log_time if each.results else 0.0 for each in known])
