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
from reports.planted.about import About, Cell, Gate, write_about
from reports.planted.campaign import OWN, PLANTED, TIMING, VERDICTS
from reports.planted.found import Found, found, write_found
from reports.planted.processes import Experiment, Process, from_runs, write
from suite.errors import PeakgateError, refused
from suite.verdict import ExitCode, Verdict

NEEDED = (Experiment.SAME, Experiment.STEPS, Experiment.MUTANTS)
"""What a record cannot do without."""

MORE = {Experiment.STEPS: Experiment.PAIRS}
"""Whose processes stand in whose record too."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One whole ``ab`` of a campaign: its folder, what it said, its verdicts, its screening processes' run files."""

    folder: Path
    gate: Gate
    verdicts: dict[str, Any]
    screened: tuple[tuple[int, Which, Path], ...]

    def processes(self, first_pair: int) -> Iterator[Process]:
        """Its screening processes, read one by one, with pairs counted from ``first_pair``."""
        for pair, which, file in self.screened:
            yield Process(first_pair + pair, which, _json(file))


def measured(out: Path) -> list[Measured]:
    """Every ``ab`` of a campaign, by its folder's name; a PeakgateError names what cannot be read."""
    folders = sorted(path.parent for path in out.glob(f"*/{TIMING}"))
    if not folders:
        raise PeakgateError(f"{out}: no */{TIMING} in it; name the folder of a `python -m reports.planted.campaign`")
    return [_measured(folder) for folder in folders]


def collect(outs: Sequence[Path], commit: str, target: Path) -> list[Path]:
    """Write the record into ``target`` and give the paths; PeakgateError where a campaign lacks a part."""
    gates = [gate for out in outs for gate in measured(out)]
    of = {needed: [gate for gate in gates if gate.gate.experiment in (needed, MORE.get(needed))] for needed in NEEDED}
    for experiment, chosen in of.items():
        if not any(gate.screened for gate in chosen):
            raise PeakgateError(f"{', '.join(map(str, outs))}: no {experiment}-* in it with pairs; measure it first")
    about = _about(outs, commit, gates)
    mutants = of[Experiment.MUTANTS][-1]
    judged = _judged(mutants)
    records = {each: from_runs(_numbered(of[each])) for each in (Experiment.SAME, Experiment.STEPS)}
    written = [path for experiment, record in records.items() for path in write(target, experiment, record)]
    return [*written, write_found(target, judged), write_about(target, about)]


def _about(outs: Sequence[Path], commit: str, gates: Sequence[Measured]) -> About:
    """The campaign's facts; machine and date are those of its first process."""
    first = next(file for gate in gates for _, _, file in gate.screened)
    run = _json(first)
    try:
        gpu = run["machine_info"]["gpu"]
        return About(
            gpu=gpu["name"],
            driver=gpu["driver"],
            taken=run["datetime"],
            commit=commit,
            planted=_own(outs),
            gates=tuple(gate.gate for gate in gates),
        )
    except (KeyError, TypeError) as error:
        raise _unlike(first, error) from error


def _own(outs: Sequence[Path]) -> dict[Cell, float]:
    """What the copies' own timing says was planted; empty where it was not taken."""
    path = next((out / OWN for out in outs if (out / OWN).is_file()), None)
    if path is None:
        return {}
    try:
        return {_cell(name): float(shift) for name, shift in _json(path).items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise _unlike(path, error) from error


def _judged(mutants: Measured) -> Found:
    planted = mutants.folder / PLANTED
    try:
        return found(_json(planted), mutants.verdicts)
    except (KeyError, TypeError) as error:
        raise _unlike(planted, error) from error


def _numbered(chosen: Sequence[Measured]) -> Iterator[Process]:
    first = 0
    for gate in chosen:
        yield from gate.processes(first)
        first += gate.gate.screening_pairs


def _measured(folder: Path) -> Measured:
    timing, manifest, verdicts = (_json(folder / name) for name in (TIMING, Path(FOLDER, MANIFEST), VERDICTS))
    try:
        rows = {row["case"]: row["verdict"] for row in verdicts["rows"]}
        processes = [(Stage(entry["stage"]), entry["pair"], entry) for entry in manifest["processes"]]
        pairs = {stage: {pair for of, pair, _ in processes if of is stage} for stage in Stage}
        gate = Gate(
            experiment=Experiment(timing["experiment"]),
            exit_code=int(verdicts["exit_code"]),
            cases=len(rows),
            screening_pairs=len(pairs[Stage.SCREEN]),
            confirming_pairs=len(pairs[Stage.CONFIRM]),
            seconds=float(timing["seconds"]),
            verdicts={case: verdict for case, verdict in rows.items() if verdict != Verdict.SAME},
        )
        screened = tuple(
            (pair, Which(entry["which"]), folder / FOLDER / entry["file"])
            for stage, pair, entry in processes
            if stage is Stage.SCREEN and entry["file"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _unlike(folder, error) from error
    return Measured(folder, gate, verdicts, screened)


def _unlike(what: Path, error: Exception) -> PeakgateError:
    return PeakgateError(f"{what}: not what a campaign leaves ({error!r}); measure that experiment again")


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
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
