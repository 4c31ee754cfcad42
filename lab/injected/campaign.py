"""Measures injected slowdowns: ``python -m lab.injected.campaign OUT mutants same:5 steps ...``.

Each experiment is one ``ab`` of two copies of a project, with its results in a folder under OUT. ``steps`` and
``pairs`` copy the kernels of known length in lab/injected/project, the others the current project. ``python -m
lab.injected.collect OUT`` makes the record.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.injected import mutants
from lab.injected.record import MUTANTS, SCHEMA, Experiment, read_json
from peakgate.base import config
from peakgate.base.config import Project
from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import write_whole
from peakgate.base.verdict import ExitCode
from peakgate.case import Scale, Tier
from peakgate.run.ab_process import AB_VARIABLE
from peakgate.spec import catalogue

PROJECT = Path(__file__).with_name("project")
steps = catalogue.module_at(PROJECT / "kernels" / "steps" / "family.py")
TIMING, VERDICTS = "timing.json", "ab.json"
DECIDED = frozenset({ExitCode.OK, ExitCode.REGRESSION, ExitCode.UNDECIDED})
"""Exit codes of an ``ab`` that was measured to its end."""

PAIRS = {Experiment.SAME_PAIRS: "50,2", Experiment.PAIRS: "60,2"}
"""``--pairs`` of the runs from which gates are resampled: every pair has every case, and a gate uses up to 50."""


def measure(experiment: Experiment, out: Path, extra: Sequence[str] = ()) -> int:
    """Run one experiment into ``out`` and return the exit code of its ``ab``, which gets the ``extra`` arguments too.

    The wall time is written to TIMING; an unfinished run has none and is not part of a record.
    """
    copies = experiment in (Experiment.STEPS, Experiment.PAIRS)
    own = config.required()
    listed = mutants.read(mutants.LIST) if experiment is Experiment.MUTANTS else ()

    def change(head: Path) -> None:
        if copies:
            (head / steps.MARK).touch()
        mutants.apply(head, listed, own)

    asked = {"all_pairs": experiment in PAIRS}
    arguments = ("--measure-unchanged", *(["--pairs", PAIRS[experiment]] if experiment in PAIRS else []), *extra)
    project = config.find(PROJECT) or own if copies else own
    code, seconds = compared(project, change, out, arguments, asked)
    if code in DECIDED:
        timing = {"experiment": experiment, "exit_code": code, "seconds": round(seconds, 1)}
        if listed:
            of_mutant = mutants.touched(listed, catalogue.cases(Scale.BENCH, Tier.GATE), own)
            found = mutants.judged(listed, of_mutant, read_json(out / VERDICTS, lambda content: list(content["rows"])))
            write_whole(out / MUTANTS, json.dumps({"schema": SCHEMA} | found, indent=1) + "\n")
        write_whole(out / TIMING, json.dumps(timing) + "\n")
    return code


def compared(
    project: Project, change: Callable[[Path], object], out: Path, arguments: Sequence[str], asked: Mapping[str, int]
) -> tuple[int, float]:
    """Run ``ab`` on two copies of a project after ``change`` has edited head; returns its exit code and wall time.

    ``asked`` are fields of ``compare.ab.command.AskedOfAb``.
    """
    with tempfile.TemporaryDirectory(prefix="peakgate-injected-") as scratch:
        base, head = (copied(project, Path(scratch, side)) for side in ("base", "head"))
        change(head)
        command = [sys.executable, "-m", "peakgate", "ab", str(base), str(head), "--out", str(out), *arguments]
        environment = os.environ | {AB_VARIABLE: json.dumps(asked)}
        start = time.monotonic()
        done = subprocess.run(command, cwd=config.required().root, env=environment, check=False)
        return done.returncode, time.monotonic() - start


def copied(project: Project, target: Path) -> Path:
    """Copy the project's settings and the folders that a side of ``ab`` needs to ``target``."""
    ignored = shutil.ignore_patterns("__pycache__", "tests", "runs")
    for folder in {project.kernels, project.baselines, *project.include, *project.pythonpath}:
        if folder.is_dir():
            shutil.copytree(folder, target / folder.relative_to(project.root), ignore=ignored, dirs_exist_ok=True)
    assert project.file is not None, "a project of a folder without settings"
    shutil.copy(project.file, target / project.file.name)
    return target


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiments one after the other; exit code 2 if an ``ab`` does not finish, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m lab.injected.campaign", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of the results")
    parser.add_argument("wanted", nargs="+", metavar="EXPERIMENT[:TIMES]", help=f"of {', '.join(Experiment)}")
    parser.add_argument("--device", default="gpu:0", help="gpu:N (default: gpu:0)")
    options = parser.parse_args(arguments)
    try:
        for experiment in [each for text in options.wanted for each in _wanted(text)]:
            extra = ("--device", options.device)
            numbered = (options.out / f"{experiment}-{number}" for number in itertools.count(1))
            code = measure(experiment, next(path for path in numbered if not path.exists()), extra)
            if code not in DECIDED:
                return refused(PeakgateError(f"{experiment}: ab exited {code} before its end; see its message above"))
    except PeakgateError as error:
        return refused(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return ExitCode.OK


def _wanted(text: str) -> list[Experiment]:
    name, _, times = text.partition(":")
    if name not in tuple(Experiment) or not (times or "1").isdecimal():
        raise PeakgateError(f"{text!r}: expected one of {', '.join(Experiment)}, with :TIMES or without")
    return [Experiment(name)] * int(times or 1)


if __name__ == "__main__":
    sys.exit(main())
