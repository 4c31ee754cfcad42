"""What an experiment leaves behind: a manifest and a run file a process, enough to decide again without measuring."""

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
            settings=Settings(**document["settings"]),
            plan=_plan(document["plan"]),
            processes=[_process(entry) for entry in document["processes"]],
            notes=[str(note) for note in document["notes"]],
            stopped=document["stopped"],
        )
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise PeakgateError(
            f"{path}: not a whole manifest ({type(error).__name__}: {error}); restore it or measure again"
        ) from None
    record.runs = {process.file: load_run(path.parent / process.file) for process in record.processes if process.file}
    return record


def _folder(entry: Mapping[str, Any], path: Path) -> Folder:
    return Folder(str(entry["label"]), path.parent, entry["commit"])


def _plan(entry: Mapping[str, Any]) -> Plan:
    reported: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()
    }
    return Plan(**reported)


def _process(entry: Mapping[str, Any]) -> Process:
    refused = {case: (verdict, reason) for case, (verdict, reason) in entry["refused"].items()}
    reported = {"stage": Phase(entry["stage"]), "which": Side(entry["which"]), "refused": refused}
    return Process(**{**entry, **reported})
