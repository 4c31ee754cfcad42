"""Measure a planted-truth campaign on GPU 0: ``python -m reports.planted.campaign OUT own one mutants same:5 ...``.

Each experiment is an ``ab`` of two copies of this tree, and leaves its folder under OUT; ``own`` asks the clock inside
the planted copies' kernel. ``python -m reports.planted.collect OUT`` makes the committed record of it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from peakgate.case import Scale, Tier
from peakgate.common.errors import PeakgateError, refused
from peakgate.common.files import write_whole
from peakgate.project import catalogue
from peakgate.reports.planted.apply import apply, chosen, described, read
from peakgate.reports.planted.copies import PROJECT, steps
from peakgate.reports.planted.processes import Experiment
from peakgate.verdict import ExitCode

ROOT = Path(__file__).parents[2]
TIMING, PLANTED, OWN, VERDICTS = "timing.json", "planted.json", "own.json", "ab.json"
ONE_KERNEL = "smem_pad-no-padding"
DECIDED = frozenset({ExitCode.OK, ExitCode.REGRESSION, ExitCode.UNDECIDED})
"""How an ``ab`` exits that was measured to its end."""

COPIES = ("--measure-unchanged", "-k", f"{steps.NAME}.")

Change = Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class Trial:
    """An ``ab``: the project both sides are copies of, what is done to head's, and the arguments it runs with."""

    change: Change
    arguments: tuple[str, ...] = ("--measure-unchanged",)
    project: Path = ROOT


def _nothing(_tree: Path) -> None:
    pass


def _mark(tree: Path) -> None:
    (tree / steps.MARK).touch()


def _mutate(tree: Path) -> None:
    apply(tree, read())


def _mutate_one(tree: Path) -> None:
    apply(tree, chosen(read(), [ONE_KERNEL]))


TRIALS = {
    Experiment.SAME: Trial(_nothing),
    Experiment.STEPS: Trial(_mark, COPIES, PROJECT),
    Experiment.PAIRS: Trial(_mark, (*COPIES, "--pairs", "100", "--confirm-pairs", "2"), PROJECT),
    Experiment.MUTANTS: Trial(_mutate),
    Experiment.ONE: Trial(_mutate_one, ()),
}


def measure(experiment: Experiment, out: Path) -> int:
    """Run one experiment into ``out`` and give the exit code of its ``ab``.

    Its wall time goes into TIMING; a run that did not get to its end has none, and is no part of a record.
    """
    trial = TRIALS[experiment]
    with tempfile.TemporaryDirectory(prefix="peakgate-planted-") as scratch:
        base, head = (_copied(trial.project, Path(scratch, side)) for side in ("base", "head"))
        trial.change(head)
        command = [
            *(sys.executable, "-m", "peakgate", "ab", "--base-dir", str(base), "--head-dir", str(head)),
            *(*trial.arguments, "--out", str(out)),
        ]
        start = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, check=False)
        seconds = time.monotonic() - start
    if done.returncode not in DECIDED:
        return done.returncode
    timing = {"experiment": experiment, "exit_code": done.returncode, "seconds": round(seconds, 1)}
    write_whole(out / TIMING, json.dumps(timing) + "\n")
    if experiment is Experiment.MUTANTS:
        found = described(read(), catalogue.cases(Scale.BENCH, Tier.GATE))
        write_whole(out / PLANTED, json.dumps(found, indent=1) + "\n")
    return done.returncode


def _copied(project: Path, target: Path) -> Path:
    """A copy of a project's settings, kernels and baselines at ``target``; a side needs nothing else."""
    for folder in ("kernels", "baselines"):
        if (project / folder).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "tests", "runs", "lab")
            shutil.copytree(project / folder, target / folder, ignore=ignored)
    for file in ("pyproject.toml", "peakgate.toml"):
        if (project / file).is_file():
            shutil.copy(project / file, target / file)
    return target


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for, one after the other, until an ``ab`` does not get to its end; 2 then, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m reports.planted.campaign", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of the results")
    parser.add_argument("wanted", nargs="+", metavar="EXPERIMENT[:TIMES]", help=f"of own, {', '.join(Experiment)}")
    options = parser.parse_args(arguments)
    try:
        for name, count in [_wanted(text) for text in options.wanted]:
            for _ in range(count):
                _run(name, options.out)
    except PeakgateError as error:
        return refused(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return ExitCode.OK


def _run(name: str, out: Path) -> None:
    if name == "own":
        done = subprocess.run(
            [sys.executable, "-m", "peakgate.reports.planted.own_timing", str(out / OWN)], cwd=ROOT, check=False
        )
        failed = done.returncode != 0
    else:
        failed = measure(Experiment(name), _unused(out, name)) not in DECIDED
    if failed:
        raise PeakgateError(f"{name}: was not measured to its end; see what was said above")


def _unused(out: Path, name: str) -> Path:
    """The folder for one more run of an experiment, numbered from 1; never one that is there."""
    return next(path for number in itertools.count(1) if not (path := out / f"{name}-{number}").exists())


def _wanted(text: str) -> tuple[str, int]:
    name, _, times = text.partition(":")
    if name not in (*Experiment, "own") or not (times or "1").isdecimal():
        raise PeakgateError(f"{text!r}: expected one of own, {', '.join(Experiment)}, with :TIMES or without")
    return name, int(times or 1)


if __name__ == "__main__":
    sys.exit(main())
