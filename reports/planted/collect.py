"""``python -m reports.planted.collect OUT... --commit ID``: make the committed record of measured campaigns.

Each OUT is the folder of a ``reports.planted.campaign``; several are put together. An experiment that they measured
takes the place of what the record had of it; the others stay as they are there. Run files are condensed to the
statistics of each process and case, and the samples of the first pairs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peakgate.common.errors import PeakgateError, refused
from peakgate.reports.ab.schedule import Stage, Which
from peakgate.reports.ab.store import FOLDER, MANIFEST
from peakgate.reports.planted.__main__ import FOLDER as RECORD
from peakgate.reports.planted.about import NAME, About, Cell, Gate, Origin, read_about, write_about
from peakgate.reports.planted.campaign import OWN, PLANTED, TIMING, VERDICTS
from peakgate.reports.planted.found import Found, found, write_found
from peakgate.reports.planted.processes import Experiment, Process, from_runs, write
from peakgate.reports.render.console import say
from peakgate.verdict import ExitCode, Verdict

NEEDED = (Experiment.SAME, Experiment.STEPS, Experiment.MUTANTS)
"""What a record cannot do without."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One ``ab`` of a campaign: its folder, its screening processes' run files, and what it said.

    ``gate`` and ``verdicts`` are None of pairs to draw gates from: they decide nothing, so they may end anywhere.
    """

    folder: Path
    experiment: Experiment
    screened: tuple[tuple[int, Which, Path], ...]
    gate: Gate | None = None
    verdicts: Mapping[str, Any] | None = None

    @property
    def record(self) -> Experiment:
        """In whose record it stands."""
        return Experiment.STEPS if self.experiment is Experiment.PAIRS else self.experiment

    @property
    def pairs(self) -> int:
        """Numbers that its pairs take up, those that left no run file too."""
        return 1 + max((pair for pair, _, _ in self.screened), default=-1)

    def processes(self, first_pair: int) -> Iterator[Process]:
        """Its screening processes, read one by one, with pairs counted from ``first_pair``."""
        for pair, which, file in self.screened:
            yield Process(first_pair + pair, which, _json(file))


def measured(out: Path) -> list[Measured]:
    """Every ``ab`` of a campaign, whole ones first, by folder; a PeakgateError names what cannot be read."""
    timed = [path.parent for path in sorted(out.glob(f"*/{TIMING}"))]
    whole = [_whole(folder) for folder in timed if not folder.name.startswith(f"{Experiment.PAIRS}-")]
    drawn_from = [_pairs(path.parents[1]) for path in sorted(out.glob(f"{Experiment.PAIRS}-*/{FOLDER}/{MANIFEST}"))]
    if not whole and not drawn_from:
        raise PeakgateError(f"{out}: no */{TIMING} in it; name the folder of a `python -m reports.planted.campaign`")
    return [*whole, *drawn_from]


def collect(outs: Sequence[Path], commit: str, target: Path) -> list[Path]:
    """Write what was measured into the record ``target`` and give the paths.

    A PeakgateError tells what neither the campaigns nor the record have, and a record of another GPU or driver.
    """
    fresh = [each for out in outs for each in measured(out)]
    of = {needed: [each for each in fresh if each.record is needed] for needed in NEEDED}
    of = {needed: chosen for needed, chosen in of.items() if any(each.screened for each in chosen)}
    where, there = ", ".join(map(str, outs)), {each.experiment for each in fresh}
    if Experiment.PAIRS in there and Experiment.STEPS not in there:
        raise PeakgateError(f"{where}: pairs-* and no steps-*, which stand in one record; measure steps there too")
    known = read_about(target) if (target / NAME).is_file() else None
    for needed in NEEDED:
        if needed not in of and (known is None or needed not in known.origins):
            raise PeakgateError(f"{where}: no {needed}-* in it with pairs; measure it first")
    about = _about(outs, commit, fresh, known)
    judged = _judged(of[Experiment.MUTANTS][-1]) if Experiment.MUTANTS in of else None
    records = {each: from_runs(_numbered(of[each])) for each in (Experiment.SAME, Experiment.STEPS) if each in of}
    written = [path for experiment, record in records.items() for path in write(target, experiment, record)]
    return [*written, *([write_found(target, judged)] if judged else []), write_about(target, about)]


def _about(outs: Sequence[Path], commit: str, fresh: Sequence[Measured], known: About | None) -> About:
    """The record's facts: those of what was measured, and of the rest what is known."""
    first = {each.record: each.screened[0][2] for each in reversed(fresh) if each.screened}
    if not first:
        raise PeakgateError(f"{', '.join(map(str, outs))}: no pair was measured in it; measure it first")
    runs = {record: (file, _json(file)) for record, file in first.items()}
    machines = {_machine(file, run) for file, run in runs.values()}
    if known is not None and not known.origins.keys() <= runs.keys():
        machines.add((known.gpu, known.driver))
    if len(machines) > 1:
        there = " and ".join(f"{gpu} with driver {driver}" for gpu, driver in sorted(machines))
        raise PeakgateError(f"a record is of one GPU model and driver, this would be of {there}; give another --record")
    ((gpu, driver),) = machines
    kept = [gate for gate in known.gates if gate.experiment not in runs] if known else []
    return About(
        gpu=gpu,
        driver=driver,
        origins=(dict(known.origins) if known else {})
        | {record: Origin(commit, str(run["datetime"])) for record, (_, run) in runs.items()},
        planted=_own(outs, known if Experiment.STEPS not in runs else None),
        gates=(*kept, *(each.gate for each in fresh if each.gate)),
    )


def _machine(file: Path, run: Mapping[str, Any]) -> tuple[str, str]:
    try:
        gpu = run["machine_info"]["gpu"]
        run["datetime"]
        return gpu["name"], gpu["driver"]
    except (KeyError, TypeError) as error:
        raise _unlike(file, error) from error


def _own(outs: Sequence[Path], known: About | None) -> Mapping[Cell, float]:
    """What the clock in the copies' kernel says was planted; empty where it was never asked."""
    path = next((out / OWN for out in outs if (out / OWN).is_file()), None)
    if path is None:
        return known.planted if known else {}
    try:
        return {_cell(name): float(shift) for name, shift in _json(path).items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise _unlike(path, error) from error


def _judged(mutants: Measured) -> Found:
    assert mutants.verdicts is not None, "only pairs to draw from go without"
    planted = mutants.folder / PLANTED
    try:
        return found(_json(planted), mutants.verdicts)
    except (KeyError, TypeError) as error:
        raise _unlike(planted, error) from error


def _numbered(chosen: Sequence[Measured]) -> Iterator[Process]:
    first = 0
    for each in chosen:
        yield from each.processes(first)
        first += each.pairs


def _whole(folder: Path) -> Measured:
    """An ``ab`` that came to its end."""
    timing, manifest, verdicts = (_json(folder / name) for name in (TIMING, Path(FOLDER, MANIFEST), VERDICTS))
    try:
        rows = {row["case"]: row["verdict"] for row in verdicts["rows"]}
        pairs = {stage: {each["pair"] for each in manifest["processes"] if each["stage"] == stage} for stage in Stage}
        gate = Gate(
            experiment=Experiment(timing["experiment"]),
            exit_code=int(verdicts["exit_code"]),
            cases=len(rows),
            screening_pairs=len(pairs[Stage.SCREEN]),
            confirming_pairs=len(pairs[Stage.CONFIRM]),
            seconds=float(timing["seconds"]),
            verdicts={case: verdict for case, verdict in rows.items() if verdict != Verdict.SAME},
        )
        return Measured(folder, gate.experiment, _screened(folder, manifest), gate, verdicts)
    except (KeyError, TypeError, ValueError) as error:
        raise _unlike(folder, error) from error


def _pairs(folder: Path) -> Measured:
    """Pairs to draw gates from, as far as they were measured."""
    try:
        return Measured(folder, Experiment.PAIRS, _screened(folder, _json(folder / FOLDER / MANIFEST)))
    except (KeyError, TypeError, ValueError) as error:
        raise _unlike(folder, error) from error


def _screened(folder: Path, manifest: Mapping[str, Any]) -> tuple[tuple[int, Which, Path], ...]:
    return tuple(
        (int(each["pair"]), Which(each["which"]), folder / FOLDER / each["file"])
        for each in manifest["processes"]
        if Stage(each["stage"]) is Stage.SCREEN and each["file"]
    )


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
            say(f"{path}: {path.stat().st_size} bytes\n")
    except PeakgateError as error:
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
