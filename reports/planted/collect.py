"""``python -m reports.planted.collect OUT... [--commit ID]``: make the committed record of measured campaigns.

Each OUT is the folder of a ``reports.planted.campaign``; several are put together. Run files are condensed to the
statistics of each process and case, and the samples of the first pairs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.ab.schedule import Stage, Which
from reports.ab.store import FOLDER, MANIFEST
from reports.planted.__main__ import FOLDER as RECORD
from reports.planted.about import UNREMARKABLE, About, Cell, Gate, write_about
from reports.planted.campaign import OWN, PLANTED, TIMING
from reports.planted.found import found, write_found
from reports.planted.processes import Experiment, Process, from_runs, write
from suite.errors import PeakgateError
from suite.verdict import ExitCode

SAMPLE_PAIRS = 20
MOST_SAMPLES = 60
"""More would not fit the size a record may have."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One whole ``ab`` of a campaign: its folder, manifest, verdicts and wall time."""

    folder: Path
    experiment: Experiment
    manifest: dict[str, Any]
    verdicts: dict[str, Any]
    seconds: float

    @property
    def gate(self) -> Gate:
        """What it said."""
        rows = {row["case"]: row["verdict"] for row in self.verdicts["rows"]}
        return Gate(
            experiment=self.experiment,
            exit_code=int(self.verdicts["exit_code"]),
            cases=len(rows),
            screening_pairs=self._pairs(Stage.SCREEN),
            confirming_pairs=self._pairs(Stage.CONFIRM),
            seconds=self.seconds,
            verdicts={case: verdict for case, verdict in rows.items() if verdict != UNREMARKABLE},
        )

    def processes(self, first_pair: int) -> Iterator[Process]:
        """Its screening processes, read one by one, with pairs counted from ``first_pair``."""
        for entry in self.manifest["processes"]:
            if entry["stage"] == Stage.SCREEN and entry["file"]:
                document = _json(self.folder / FOLDER / entry["file"])
                yield Process(first_pair + entry["pair"], Which(entry["which"]), document)

    def _pairs(self, stage: Stage) -> int:
        return len({entry["pair"] for entry in self.manifest["processes"] if entry["stage"] == stage})


def measured(out: Path) -> list[Measured]:
    """Every ``ab`` of a campaign, by its folder's name; a PeakgateError names what cannot be read."""
    folders = sorted(path.parent for path in out.glob(f"*/{TIMING}"))
    if not folders:
        raise PeakgateError(f"{out}: no */{TIMING} in it; name the folder of a `python -m reports.planted.campaign`")
    return [_measured(folder) for folder in folders]


def collect(outs: Sequence[Path], commit: str, target: Path) -> list[Path]:
    """Write the record into ``target`` and give the paths; PeakgateError where a campaign lacks a part."""
    gates = [gate for out in outs for gate in measured(out)]
    written: list[Path] = []
    for experiment in (Experiment.SAME, Experiment.STEPS):
        chosen = [gate for gate in gates if gate.experiment is experiment]
        if not chosen:
            raise PeakgateError(f"{', '.join(map(str, outs))}: no {experiment}-* in it; measure it first")
        record = from_runs(_numbered(chosen), sample_pairs=SAMPLE_PAIRS, most_samples=MOST_SAMPLES)
        written += write(target, experiment, record)
    for gate in gates:
        if gate.experiment is Experiment.MUTANTS:
            written.append(write_found(target, found(_json(gate.folder / PLANTED), gate.verdicts)))
    own = next((out / OWN for out in outs if (out / OWN).is_file()), None)
    planted = {} if own is None else {_cell(name): shift for name, shift in _json(own).items()}
    run = _json(next(gates[0].folder.glob(f"{FOLDER}/screen-*.json")))
    gpu = run["machine_info"]["gpu"]
    about = About(
        gpu=gpu["name"],
        driver=gpu["driver"],
        taken=run["datetime"],
        commit=commit,
        planted=planted,
        gates=tuple(gate.gate for gate in gates),
    )
    return [*written, write_about(target, about)]


def _numbered(chosen: Sequence[Measured]) -> Iterator[Process]:
    first = 0
    for gate in chosen:
        yield from gate.processes(first)
        first += gate.gate.screening_pairs


def _measured(folder: Path) -> Measured:
    timing = _json(folder / TIMING)
    return Measured(
        folder,
        Experiment(timing["experiment"]),
        _json(folder / FOLDER / MANIFEST),
        _json(folder / "ab.json"),
        timing["seconds"],
    )


def _cell(name: str) -> Cell:
    duration, share = name.split("-")
    return Cell(int(duration.removesuffix("us")), int(share.removesuffix("pm")))


def _json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PeakgateError(f"{path}: cannot be read ({error}); measure that experiment again") from error
    return content


def main(arguments: Sequence[str] | None = None) -> int:
    """Collect and say what was written; 2 on bad input."""
    parser = argparse.ArgumentParser(prog="python -m reports.planted.collect", description=__doc__)
    parser.add_argument("outs", nargs="+", type=Path, metavar="OUT", help="folder of a campaign")
    parser.add_argument("--commit", required=True, help="the commit that was measured")
    parser.add_argument("--record", type=Path, default=RECORD, metavar="DIR", help=f"where to (default: {RECORD})")
    options = parser.parse_args(arguments)
    try:
        for path in collect(options.outs, options.commit, options.record):
            sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")
    except PeakgateError as error:
        sys.stderr.write(" ".join(str(error).split()) + "\n")
        return ExitCode.BAD_INPUT
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
