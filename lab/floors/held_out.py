"""Try floors on GPUs they were not set from: ``python -m lab.floors.held_out FOLDER``.

Floors are set from some GPUs of a model and tried on the runs of the others, for every split of the GPUs. All code is
unchanged, so every case below its floor is a false failure. A run fails when any case is below its floor; *after
remeasuring*, when the case also is by the median of three sessions, this one and the next two of its GPU. Runs
of one GPU resemble each other, so the upper confidence limit, which takes them as independent, is optimistic.

FOLDER is a GPU model's folder of baselines; read are its kept gates, and in ``lab/`` gates of unchanged code on other
GPUs of that model and kernels with slowdown mutants (``measure.py``). Both are judged anew by the committed floors;
where the floors of their day decided otherwise, the page says so.
"""

from __future__ import annotations

import argparse
import itertools
import re
import statistics
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from msgspec import structs

from lab.pages import table as markdown_table
from lab.records import load_packed_run
from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import write_whole
from peakgate.base.text import say
from peakgate.base.verdict import REGRESSIONS, ExitCode, Verdict
from peakgate.compare import noise
from peakgate.compare.floors import margins
from peakgate.compare.floors.command import NOTABLE_SLOWDOWN, evidence_of, rounded_down
from peakgate.compare.resample import rate_at_most
from peakgate.judge.floors import load_floors
from peakgate.runfile.frame import to_frame
from peakgate.runfile.saved import Run, load_run

LAB = Path(__file__).resolve().parents[1]
PAGE = LAB / "floors" / "README.md"
GATES = ("floors/runs/*.json.xz", "fleet/trial-*/*/runs/*.json.xz")
HONEST, SLOWED = "floors/mutants/honest/*.json.xz", "floors/mutants/slowed/*.json.xz"
"""Below ``lab/``; the mutated run after each honest one is on the same GPU."""

ROOM = re.compile(r'^"(?P<case>[^"]+)".*# .*room (?P<percent>[0-9.]+) %', re.MULTILINE)

SESSIONS_AGAIN = 3
MOST_NAMED = 5
BY_FLOOR = (Verdict.PASS, Verdict.NO_FLOOR, Verdict.BELOW_FLOOR)
Rule = Callable[[pd.DataFrame], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Tried:
    """Floors of one rule from ``known`` GPUs on ``runs`` runs of other GPUs: how many runs failed, and which cases.

    ``again`` are those that fail after remeasuring too.
    """

    known: int
    runs: int
    failed: int
    again: int
    cases: tuple[str, ...]


def previous_rule(sessions: pd.DataFrame) -> dict[str, float]:
    """The rule up to version 0.2: the worst session less the larger of 2 % and three SDs between sessions."""
    by_case = sessions.assign(log=np.log(sessions["peak_fraction"])).groupby("case", sort=False)
    variance, df = (np.asarray(each, dtype=np.float64) for each in (by_case["log"].var(), by_case.size() - 1))
    time_us, worst = by_case["time_us"].median().to_numpy(np.float64), by_case["peak_fraction"].min()
    moderated, _ = noise.squeeze(variance, df, np.log(time_us))
    sd = np.maximum(np.sqrt(np.maximum(variance, moderated)), margins.short_kernel_sd(time_us))
    return _rounded(worst * (1 - np.maximum(0.02, 3 * sd)))


def present_rule(sessions: pd.DataFrame) -> dict[str, float]:
    """The rule of ``margins``."""
    return _rounded(margins.bounds(sessions)["floor"])


def _rounded(floors: pd.Series[float]) -> dict[str, float]:
    """Floors by case, rounded as they are written."""
    return {str(case): rounded_down(floor) for case, floor in floors.items()}


def held_out(runs: Sequence[Run], rule: Rule) -> list[Tried]:
    """Every split of the runs' GPUs into known and held-out ones, by the number of known GPUs."""
    gpus = sorted({str(run.uuid) for run in runs})
    found = []
    for count in range(1, len(gpus)):
        splits = [tried(runs, set(known), rule) for known in itertools.combinations(gpus, count)]
        numbers = {name: sum(getattr(split, name) for split in splits) for name in ("runs", "failed", "again")}
        found.append(Tried(count, **numbers, cases=tuple(sorted({case for split in splits for case in split.cases}))))
    return found


def tried(runs: Sequence[Run], known: Collection[str], rule: Rule) -> Tried:
    """Floors from the runs of the known GPUs, tried on the others."""
    floors = rule(evidence_of(to_frame(run for run in runs if str(run.uuid) in known)))
    others: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.taken):
        if str(run.uuid) not in known:
            others.setdefault(str(run.uuid), []).append(run)
    failed, again, cases = 0, 0, set()
    for sessions in others.values():
        for index in range(len(sessions)):
            following = [sessions[(index + step) % len(sessions)] for step in range(SESSIONS_AGAIN)]
            below = [case for case, floor in floors.items() if _below(following[:1], case, floor)]
            failed += bool(below)
            again += any(_below(following, case, floors[case]) for case in below)
            cases |= set(below)
    return Tried(len(known), sum(map(len, others.values())), failed, again, tuple(sorted(cases)))


def table(runs: Sequence[Run]) -> str:
    """Both rules as a Markdown table, with the cases that failed."""
    head = ("rule", "GPUs known", "runs on other GPUs", "runs that fail", "after remeasuring", "upper 95 % limit")
    rows, notes = [], []
    for name, rule in (("previous", previous_rule), ("present", present_rule)):
        for each in held_out(runs, rule):
            limit = 100 * rate_at_most(each.again / each.runs, each.runs)
            rows.append((name, each.known, each.runs, each.failed, each.again, f"{limit:.1f} %"))
            if each.cases:
                more = len(each.cases) - MOST_NAMED
                named = ", ".join(each.cases[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
                notes.append(f"- {name} rule, GPUs known: {each.known}: {named}")
    text = markdown_table(head, rows)
    page = ["# Floors tried on GPUs they were not set from", "", text, "", "Cases below their floor:", "", *notes]
    return "\n".join(page) + "\n"


def gates(runs: Sequence[Run], floors: Mapping[str, float]) -> Tried:
    """Whole gates by the floors as committed: one fails by a verdict that fails a merge, or a case below its floor.

    Each has measured its cases below their floor again, and keeps the median of three processes.
    """
    bad: list[set[str]] = []
    for run in runs:
        below = {case for case, floor in floors.items() if _below([run], case, floor)}
        judged = {case for case, result in run.cases.items() if result.verdict in REGRESSIONS}
        bad.append(below | judged | {case for case, lost in run.unmeasured.items() if lost.verdict in REGRESSIONS})
    failed = sum(map(bool, bad))
    gpus = len({run.uuid for run in runs})
    return Tried(gpus, len(runs), failed, failed, tuple(sorted(set().union(*bad))))


def rejudged(run: Run, floors: Mapping[str, float]) -> Run:
    """The run as these floors judge it instead of those of the day it was taken; faulty verdicts stay."""
    cases = dict(run.cases)
    for case, result in run.cases.items():
        if case in floors and result.verdict in BY_FLOOR:
            below = _below([run], case, floors[case])
            cases[case] = structs.replace(result, verdict=Verdict.BELOW_FLOOR if below else Verdict.PASS)
    return replace(run, cases=cases)


@dataclass(frozen=True, slots=True)
class Slowed:
    """A case with a slowdown mutant: its time over the unchanged one's less 1, its room, and the gate's verdict."""

    case: str
    slowdown: float
    room: float
    verdict: Verdict | None

    @property
    def missed(self) -> bool:
        """Slower by more than its room, and not below its floor."""
        return self.slowdown > self.room and self.verdict is not Verdict.BELOW_FLOOR


def slowed(honest: Run, mutated: Run, rooms: Mapping[str, float]) -> list[Slowed]:
    """The cases of both runs that have a floor, the most slowed first."""
    found = [
        Slowed(case, result.time_us / honest.cases[case].time_us - 1, rooms[case], result.verdict)
        for case, result in mutated.cases.items()
        if case in honest.cases and case in rooms
    ]
    return sorted(found, key=lambda each: each.slowdown, reverse=True)


def rooms(floors: str) -> dict[str, float]:
    """The room that the comment on each floor of a floors.toml prints, as a fraction."""
    return {found["case"]: float(found["percent"]) / 100 for found in ROOM.finditer(floors)}


def page(baselines: Path) -> str:
    """The whole table of a GPU model: floors on GPUs they were not set from, and kernels with slowdown mutants."""
    kept = [load_run(path) for path in sorted((baselines / "runs").glob("*-gate.json*"))]
    if not kept:
        raise PeakgateError(f"{baselines}: no kept gates (runs/*-gate.json*) in it; name baselines/<gpu>")
    known = {run.uuid for run in kept}
    tried_on = [load_packed_run(path) for pattern in GATES for path in sorted(LAB.glob(pattern))]
    floors = load_floors(baselines / "floors.toml").by_case
    text = table(kept)
    others = [run for run in tried_on if run.uuid not in known]
    text += _gates_section(others, floors) + _left_out_section([*kept, *others]) if others else ""
    text += _power_section([*kept, *others], floors)
    found = rooms((baselines / "floors.toml").read_text("utf-8"))
    before, now = [], []
    for honest, mutated in zip(sorted(LAB.glob(HONEST)), sorted(LAB.glob(SLOWED)), strict=True):
        unchanged, slow = load_packed_run(honest), load_packed_run(mutated)
        before += slowed(unchanged, slow, found)
        now += slowed(unchanged, rejudged(slow, floors), found)
    return text + (_slowed_section(now, before) if now else "")


def _gates_section(runs: Sequence[Run], floors: Mapping[str, float]) -> str:
    now = gates([rejudged(run, floors) for run in runs], floors)
    then = gates(runs, {})
    limit = 100 * rate_at_most(now.failed / now.runs, now.runs)
    named = f" ({', '.join(then.cases)})" if then.cases else ""
    return (
        "\n## Gates of unchanged code by the committed floors\n\n"
        f"{now.runs} gates on {now.known} GPUs that no floor was set from: {now.failed} failed, "
        f"upper 95 % limit of the rate {limit:.1f} %. By the floors of the day they were taken, {then.failed} failed"
        f"{named}; where floors or their rule were changed after that, these gates are no independent proof of the "
        "change.\n" + "".join(f"- {case}\n" for case in now.cases)
    )


def left_out(runs: Sequence[Run]) -> list[Tried]:
    """Each GPU in turn: floors by the present rule from all the others, tried on its runs."""
    gpus = {str(run.uuid) for run in runs}
    return [tried(runs, gpus - {gpu}, present_rule) for gpu in sorted(gpus)]


def _left_out_section(runs: Sequence[Run]) -> str:
    found = left_out(runs)
    failed = [each for each in found if each.again]
    limit = 100 * rate_at_most(len(failed) / len(found), len(found))
    return (
        "\n## Each GPU left out in turn\n\n"
        f"Floors by the present rule from the other {len(found) - 1} GPUs, tried on all {len(runs)} gates: "
        f"{len(failed)} of {len(found)} GPUs have a gate that fails, upper 95 % limit of the rate {limit:.1f} %.\n"
        + "".join(f"- {', '.join(each.cases)}\n" for each in failed)
    )


def _power_section(runs: Sequence[Run], floors: Mapping[str, float]) -> str:
    """What the committed floors let pass: their room, and how many sessions slower by NOTABLE_SLOWDOWN they detect."""
    sessions = evidence_of(to_frame(runs))
    sessions = sessions[sessions["case"].isin(list(floors))]
    found = margins.bounds(sessions)
    floor = pd.Series(floors).reindex(found.index)
    predicted = margins.power(found, floor, NOTABLE_SLOWDOWN)
    limit = sessions["case"].map(floors)
    below = sessions["peak_fraction"] / (1 + NOTABLE_SLOWDOWN) < limit
    rows = []
    for duration, cases in found.groupby("duration"):
        seen = below[sessions["case"].isin(cases.index)]
        room = 100 * (cases["best"] / floor[cases.index] - 1).median()
        counts = duration, len(cases), f"{room:.1f} %", f"{int(seen.sum())} of {len(seen)} ({100 * seen.mean():.0f} %)"
        rows.append((*counts, f"{100 * predicted[cases.index].mean():.0f} %"))
    slower = f"{100 * NOTABLE_SLOWDOWN:.0f} % slower"
    head = ("duration", "cases", "median room", f"sessions {slower}, BELOW_FLOOR", "by the model")
    return f"\n## What the committed floors detect\n\n{markdown_table(head, rows)}\n"


def _slowed_section(cases: Sequence[Slowed], before: Sequence[Slowed]) -> str:
    """``before`` are the same cases with the verdicts of the day they were measured."""
    beyond = [each for each in cases if each.slowdown > each.room]
    missed = [each for each in beyond if each.missed]
    lines = [
        f"- {each.case}: {100 * each.slowdown:.1f} % slower, room {100 * each.room:.1f} %, {each.verdict}"
        for each in missed
    ]
    lost = [
        now.case
        for now, then in zip(cases, before, strict=True)
        if then.verdict is Verdict.BELOW_FLOOR and now.verdict is not Verdict.BELOW_FLOOR
    ]
    if lost:
        lines.append(f"\nBELOW_FLOOR by the floors of the day they were measured, not by today's: {', '.join(lost)}.")
    return (
        "\n## Slowdown mutants\n\n"
        f"{len(cases)} cases with a floor, of kernels with a mutant of slowdown-mutants.toml. {len(beyond)} are slower "
        f"by more than their room: {len(beyond) - len(missed)} of them BELOW_FLOOR, {len(missed)} not. The other "
        f"{len(cases) - len(beyond)} are for `ab` to detect.\n" + "".join(f"{line}\n" for line in lines)
    )


def _below(sessions: Sequence[Run], case: str, floor: float) -> bool:
    results = [run.cases[case].peak_fraction for run in sessions if case in run.cases]
    fractions = [fraction for fraction in results if fraction is not None]
    return bool(fractions) and statistics.median(fractions) < floor


def main(arguments: Sequence[str]) -> int:
    """Write the page of a GPU model and print it; exit 2 where that folder is none."""
    parser = argparse.ArgumentParser(prog="python -m lab.floors.held_out", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the GPU model's baselines/<gpu>")
    folder = parser.parse_args(arguments).folder
    try:
        text = page(folder)
        write_whole(PAGE, text)
    except PeakgateError as error:
        return refused(error)
    say(text)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
