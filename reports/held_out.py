"""Try floors on GPUs they were not set from: ``python -m peakgate.reports.held_out RUN... [--new RUN...]``.

Floors are set from some GPUs of a model and tried on the runs of the others, for every split of the GPUs. All code is
unchanged, so every case below its floor is a false failure. A run fails when any case is below its floor; *after
remeasuring*, when the case also is by the median of three sessions, this one and the next two of its GPU. With
``--new`` the floors from all of RUN are tried on the runs named there as well. Runs of one GPU resemble each other, so
the upper confidence limit, which takes them as independent, is optimistic.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from peakgate.common.errors import PeakgateError, refused
from peakgate.common.files import write_whole
from peakgate.reports import margins, noise
from peakgate.reports.floors import evidence_of, rounded_down
from peakgate.reports.locate import Archive, find_side, without_copies
from peakgate.reports.render.console import say
from peakgate.reports.runfile import Run
from peakgate.verdict import ExitCode

PROCESSES = 3
MOST_NAMED = 5
Rule = Callable[[Mapping[str, margins.Evidence]], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Tried:
    """Floors of one rule from ``known`` GPUs on ``runs`` runs of other GPUs: how many runs failed, and which cases."""

    known: int
    runs: int
    failed: int
    failed_remeasured: int
    cases: tuple[str, ...]


def previous_rule(evidence: Mapping[str, margins.Evidence]) -> dict[str, float]:
    """The rule up to version 0.2: the worst session less the larger of 2 % and three SDs between sessions."""
    logs = [np.log(known.fractions) for known in evidence.values()]
    variance = np.array([each.var(ddof=1) for each in logs])
    df = np.array([len(each) - 1.0 for each in logs])
    log_time = np.log([known.time_us for known in evidence.values()])
    moderated, _ = noise.squeeze(variance, df, log_time)
    floors = {}
    for index, (case, known) in enumerate(evidence.items()):
        largest = np.sqrt(max(variance[index], moderated[index]))
        sd = max(float(largest), noise.short_kernel_sd(known.time_us))
        floors[case] = rounded_down(min(known.fractions) * (1 - max(0.02, 3 * sd)))
    return floors


def present_rule(evidence: Mapping[str, margins.Evidence]) -> dict[str, float]:
    """The rule of ``margins``."""
    return {case: rounded_down(bound.floor) for case, bound in margins.bounds(evidence).items()}


def held_out(runs: Sequence[Run], rule: Rule) -> list[Tried]:
    """Every split of the runs' GPUs into known and held-out ones, by the number of known GPUs."""
    gpus = sorted({str(run.uuid) for run in runs})
    found = []
    for count in range(1, len(gpus)):
        splits = [
            tried(
                [run for run in runs if str(run.uuid) in known],
                [run for run in runs if str(run.uuid) not in known],
                rule,
            )
            for known in itertools.combinations(gpus, count)
        ]
        found.append(
            Tried(
                known=count,
                runs=sum(split.runs for split in splits),
                failed=sum(split.failed for split in splits),
                failed_remeasured=sum(split.failed_remeasured for split in splits),
                cases=tuple(sorted({case for split in splits for case in split.cases})),
            )
        )
    return found


def tried(known: Sequence[Run], others: Sequence[Run], rule: Rule) -> Tried:
    """Floors from the runs ``known``, tried on ``others``."""
    floors = rule(evidence_of(known))
    failed, failed_remeasured, cases = 0, 0, set()
    for gpu in sorted({str(run.uuid) for run in others}):
        sessions = sorted((run for run in others if str(run.uuid) == gpu), key=lambda run: run.taken)
        for index in range(len(sessions)):
            following = [sessions[(index + step) % len(sessions)] for step in range(PROCESSES)]
            below = [case for case, floor in floors.items() if _below(following[:1], case, floor)]
            failed += bool(below)
            failed_remeasured += any(_below(following, case, floors[case]) for case in below)
            cases |= set(below)
    return Tried(len({run.uuid for run in known}), len(others), failed, failed_remeasured, tuple(sorted(cases)))


def table(runs: Sequence[Run], new: Sequence[Run] = ()) -> str:
    """Both rules as a Markdown table, with the cases that failed."""
    lines = [
        "| rule | GPUs known | runs on other GPUs | runs that fail | after remeasuring | upper 95 % limit |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    notes = []
    for name, rule in (("previous", previous_rule), ("present", present_rule)):
        every = held_out(runs, rule)
        if new:
            every.append(tried(runs, new, rule))
        for each in every:
            limit = 100 * margins.upper_limit(each.failed_remeasured, each.runs)
            lines.append(
                f"| {name} | {each.known} | {each.runs} | {each.failed} | {each.failed_remeasured} | {limit:.1f} % |"
            )
            if each.cases:
                more = len(each.cases) - MOST_NAMED
                named = ", ".join(each.cases[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
                notes.append(f"- {name} rule, GPUs known: {each.known}: {named}")
    page = ["# Floors tried on GPUs they were not set from", "", *lines, "", "Cases below their floor:", "", *notes]
    return "\n".join(page) + "\n"


def _below(sessions: Sequence[Run], case: str, floor: float) -> bool:
    results = [run.cases[case].peak_fraction for run in sessions if case in run.cases]
    fractions = [fraction for fraction in results if fraction is not None]
    return bool(fractions) and statistics.median(fractions) < floor


def main(arguments: Sequence[str]) -> int:
    """Print the table; exit 1 when the present rule has a false failure, 2 on bad input."""
    parser = argparse.ArgumentParser(prog="python -m peakgate.reports.held_out", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="runs of unchanged code on two GPUs or more")
    parser.add_argument("--new", nargs="+", default=[], metavar="RUN", help="runs of further GPUs to try the floors on")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the table there, as Markdown")
    options = parser.parse_args(arguments)
    try:
        runs, new = _runs(options.runs), _runs(options.new)
        text = table(runs, new)
        say(text)
        if options.write:
            write_whole(options.write, text)
    except PeakgateError as error:
        return refused(error)
    every = [*held_out(runs, present_rule), *([tried(runs, new, present_rule)] if new else [])]
    return ExitCode.REGRESSION if any(each.failed_remeasured for each in every) else ExitCode.OK


def _runs(names: Sequence[str]) -> list[Run]:
    archive = Archive()
    runs = without_copies(run for name in names for run in find_side(name, archive).runs)
    if len({run.slug for run in runs}) > 1:
        raise PeakgateError("runs of several GPU models; name the runs of one")
    return runs


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
