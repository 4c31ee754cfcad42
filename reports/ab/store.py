"""Files of an experiment: a manifest and one run file per process, enough to decide again without measuring."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from peakgate.core import records
from peakgate.core.errors import Code, PeakgateError
from peakgate.core.files import write_whole
from peakgate.core.verdict import Verdict
from peakgate.reports.ab.folders import SideFolder
from peakgate.reports.ab.plan import Plan
from peakgate.reports.ab.schedule import Phase, Side
from peakgate.reports.runs.runfile import Run, load_run

MANIFEST = "manifest.json"
AB_FOLDER = "ab"


FileName = Annotated[str, Meta(pattern=r"^(?!\.\.?\Z)[^/\0]+\Z", description="a file of the manifest's folder")]


class PairSettings(Struct, frozen=True):
    """Settings given by the user."""

    tier: str
    device: str
    pairs: int
    confirm_pairs: int


class Process(Struct, frozen=True, forbid_unknown_fields=True):
    """One process, in the order they ran: what for, in which pair (from 0), on which side.

    ``file`` is its run file in the manifest's folder, None where it timed nothing. ``refused`` are verdict and reason
    of cases that a process without a run file could not time.
    """

    stage: Phase
    pair: int
    which: Side
    file: FileName | None
    exit_code: int
    seconds: records.Number
    refused: Mapping[str, tuple[Verdict, str]]


class SideLabel(Struct, frozen=True):
    """One side as the manifest names it."""

    label: str
    commit: str | None


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

    def of(self, stage: Phase) -> list[Process]:
        """The processes of one stage, as they ran."""
        return [process for process in self.processes if process.stage is stage]

    def side_runs(self, which: Side) -> list[Run]:
        """Every run file of a side, as they were taken."""
        return [self.runs[process.file] for process in self.processes if process.which is which and process.file]

    def save(self, folder: Path) -> None:
        """Write the manifest; the run files are there already."""
        base, head = (SideLabel(side.label, side.commit) for side in (self.base, self.head))
        manifest = Manifest(1, base, head, self.settings, self.plan, self.notes, self.stopped, self.processes)
        write_whole(folder / MANIFEST, json.dumps(msgspec.to_builtins(manifest), indent=1) + "\n")


def load_record(folder: Path) -> AbRecord:
    """Read an experiment back from its folder, or from the folder that holds it; a PeakgateError names mistakes."""
    path = next((at for at in (folder / MANIFEST, folder / AB_FOLDER / MANIFEST) if at.is_file()), None)
    if path is None:
        raise PeakgateError(f"{folder}: no {MANIFEST} in it; name the output folder of `peakgate ab`", Code.WHICH_RUN)
    found = records.read(path, Manifest, "restore it, use the version that wrote it, or measure again")
    base, head = (SideFolder(side.label, path.parent, side.commit) for side in (found.base, found.head))
    record = AbRecord(base, head, found.settings, found.plan, found.processes, found.notes, found.stopped)
    record.runs = {process.file: load_run(path.parent / process.file) for process in record.processes if process.file}
    _refuse_contradictions(path, record)
    return record


def _refuse_contradictions(path: Path, record: AbRecord) -> None:
    """A manifest that is empty, or whose plan lacks a case that its processes ran."""
    plan = record.plan
    planned = {*plan.head_runs, *plan.base_only}
    if not planned and not plan.unchanged:
        raise PeakgateError(f"{path}: no case in its plan; restore it or measure again", Code.NO_RUN)
    ran = {case for run in record.runs.values() for case in (*run.cases, *run.unmeasured)}
    ran |= {case for process in record.processes for case in process.refused}
    if lost := sorted(ran - planned):
        raise PeakgateError(
            f"{path}: {records.short(lost[0])} was run, but is not in its plan; restore it or measure again",
            Code.NO_RUN,
        )
