"""What an experiment leaves behind: a manifest and a run file per process, enough to decide again without measuring."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.reports.ab.folders import Folder
from peakgate.reports.ab.plan import Plan
from peakgate.reports.ab.schedule import Phase, Side
from peakgate.reports.runs.runfile import Run, load_run
from peakgate.reports.runs.strict import short
from peakgate.verdict import Verdict

SCHEMA = 1
MANIFEST = "manifest.json"
FOLDER = "ab"


@dataclass(frozen=True, slots=True)
class Settings:
    """What was asked for."""

    tier: str
    device: str
    pairs: int
    confirm_pairs: int


SETTINGS = {"tier": str, "device": str, "pairs": int, "confirm_pairs": int}


@dataclass(frozen=True, slots=True)
class Process:
    """One process, in the order they ran: what for, in which pair (from 0), on which side.

    ``file`` is its run file in the manifest's folder, None where it timed nothing. ``refused`` are verdict and reason
    of cases that a process without a run file could not time.
    """

    stage: Phase
    pair: int
    which: Side
    file: str | None
    exit_code: int
    seconds: float
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass
class Record:
    """One experiment as far as it got: sides, settings, plan, processes.

    ``stopped`` says why it ended before everything was decided; None when it did not. ``runs`` are the run files of
    ``processes``, by name.
    """

    base: Folder
    head: Folder
    settings: Settings
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
        document = {
            "schema": SCHEMA,
            "base": {"label": self.base.label, "commit": self.base.commit},
            "head": {"label": self.head.label, "commit": self.head.commit},
            "settings": asdict(self.settings),
            "plan": asdict(self.plan),
            "notes": self.notes,
            "stopped": self.stopped,
            "processes": [asdict(process) for process in self.processes],
        }
        write_whole(folder / MANIFEST, json.dumps(document, indent=1) + "\n")


def load_record(folder: Path) -> Record:
    """Read an experiment back from its folder, or from the folder that holds it; a PeakgateError says what is amiss."""
    path = next((at for at in (folder / MANIFEST, folder / FOLDER / MANIFEST) if at.is_file()), None)
    if path is None:
        raise PeakgateError(f"{folder}: no {MANIFEST} in it; name the output folder of `peakgate ab`")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise PeakgateError(
                f"{path}: schema {document['schema']!r}, this version reads {SCHEMA}; use the version that wrote it"
            )
        record = Record(
            base=_folder(document["base"], path),
            head=_folder(document["head"], path),
            settings=Settings(**{name: _of(kind, document["settings"][name]) for name, kind in SETTINGS.items()}),
            plan=_plan(document["plan"]),
            processes=[_process(entry) for entry in document["processes"]],
            notes=[_of(str, note) for note in _of(list, document["notes"])],
            stopped=_of(str | None, document["stopped"]),
        )
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise PeakgateError(
            f"{path}: not a whole manifest ({type(error).__name__}: {error}); restore it or measure again"
        ) from None
    record.runs = {process.file: load_run(path.parent / process.file) for process in record.processes if process.file}
    _refuse_contradictions(path, record)
    return record


def _refuse_contradictions(path: Path, record: Record) -> None:
    """A manifest that is empty, or whose plan lacks a case that its processes ran."""
    plan = record.plan
    planned = {*plan.head_runs, *plan.base_only}
    if not planned and not plan.unchanged:
        raise PeakgateError(f"{path}: no case in its plan; restore it or measure again")
    ran = {case for run in record.runs.values() for case in (*run.cases, *run.unmeasured)}
    ran |= {case for process in record.processes for case in process.refused}
    if lost := sorted(ran - planned):
        raise PeakgateError(f"{path}: {short(lost[0])} was run, but is not in its plan; restore it or measure again")


def _folder(entry: Mapping[str, Any], path: Path) -> Folder:
    return Folder(_of(str, entry["label"]), path.parent, _of(str | None, entry["commit"]))


def _plan(entry: Mapping[str, Any]) -> Plan:
    reported: dict[str, Any] = {
        name: tuple(_of(str, case) for case in _of(list, value)) for name, value in entry.items() if name != "unchanged"
    }
    unchanged = entry["unchanged"]
    codes = None if unchanged is None else {case: _of(str, code) for case, code in unchanged.items()}
    return Plan(**reported, unchanged=codes)


def _process(entry: Mapping[str, Any]) -> Process:
    refused = {case: (Verdict(verdict).value, _of(str, reason)) for case, (verdict, reason) in entry["refused"].items()}
    file = _of(str | None, entry["file"])
    if file is not None and file != Path(file).name:
        raise ValueError(f"{file!r} is no file of the manifest's folder")
    return Process(
        stage=Phase(entry["stage"]),
        pair=_of(int, entry["pair"]),
        which=Side(entry["which"]),
        file=file,
        exit_code=_of(int, entry["exit_code"]),
        seconds=_of(int | float, entry["seconds"]),
        refused=refused,
    )


def _of(kind: Any, value: Any) -> Any:
    """The value, of this kind; a TypeError says what it is instead."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{short(value)} where {getattr(kind, '__name__', kind)} is expected")
    return value
