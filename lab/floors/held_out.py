"""Tests floors on GPUs they were not set from; ``python -m lab.fill floors`` writes the page.

Floors are set from some of a model's GPUs with saved gates and tested on the runs of the others, for every split of the
GPUs. All code is unchanged, so every case below its floor is a false failure. A run fails if any case is below its
floor; *after remeasuring*, if the case is also below it by the median of three sessions, this one and the next two of
its GPU. Runs of one GPU resemble each other, so the upper confidence limit, which assumes independence, is optimistic.


Gates of unchanged code on other GPUs and kernels with slowdown mutants (``measure.py``) are judged anew by the
committed floors.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd
from msgspec import structs

from lab.pages import ROOT, table
from lab.records import load_packed_run
from peakgate.base.verdict import REGRESSIONS, Verdict
from peakgate.compare.floors import margins
from peakgate.compare.floors.proposals import NOTABLE_SLOWDOWN, evidence_of, rounded_down
from peakgate.compare.resample import rate_at_most
from peakgate.judge.floors import load_floors
from peakgate.runfile.frame import to_frame
from peakgate.runfile.saved import Run, load_run

BASELINES = ROOT / "baselines" / "nvidia-h200"
GATES = ("floors/runs/*.json.xz", "fleet/trial-*/*/runs/*.json.xz")
HONEST, SLOWED = "floors/mutants/honest/*.json.xz", "floors/mutants/slowed/*.json.xz"
"""Patterns below ``lab/``; the files are paired in order, each slowed run with an unchanged one on the same GPU."""

ROOM = re.compile(r'^"(?P<case>[^"]+)".*# .*room (?P<percent>[0-9.]+) %', re.MULTILINE)
SESSIONS_AGAIN = 3
BY_FLOOR = (Verdict.PASS, Verdict.NO_FLOOR, Verdict.BELOW_FLOOR)


@dataclass(frozen=True, slots=True)
class Tried:
    """Floors from ``known`` GPUs on ``runs`` runs of other GPUs: the number of failed runs, and the cases.

    ``again`` is the number that fail after remeasuring too.
    """

    known: int
    runs: int
    failed: int
    again: int
    cases: tuple[str, ...]


def set_floors(runs: Sequence[Run]) -> dict[str, float]:
    """The floors set from these runs, by case, rounded as in floors.toml."""
    bounds = margins.bounds(evidence_of(to_frame(runs)))
    return {str(case): rounded_down(floor) for case, floor in bounds["floor"].items()}


def held_out(runs: Sequence[Run]) -> list[Tried]:
    """Every split of the runs' GPUs into known and held-out ones, by the number of known GPUs."""
    gpus = sorted({str(run.uuid) for run in runs})
    found = []
    for count in range(1, len(gpus)):
        splits = [tried(runs, set(known)) for known in itertools.combinations(gpus, count)]
        numbers = {name: sum(getattr(split, name) for split in splits) for name in ("runs", "failed", "again")}
        found.append(Tried(count, **numbers, cases=tuple(sorted({case for split in splits for case in split.cases}))))
    return found


def tried(runs: Sequence[Run], known: Collection[str]) -> Tried:
    """Floors from the runs of the known GPUs, tested on the others."""
    floors = set_floors([run for run in runs if str(run.uuid) in known])
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


def gates(runs: Sequence[Run], floors: Mapping[str, float]) -> Tried:
    """Whole gates judged by the committed floors: one fails if a verdict fails a merge, or a case is below its floor.

    Each has measured its cases below their floors again and has the median of three processes.
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
    """The run judged by these floors instead of those at the time of measurement; verdicts of faults stay."""
    cases = dict(run.cases)
    for case, result in run.cases.items():
        if case in floors and result.verdict in BY_FLOOR:
            below = _below([run], case, floors[case])
            cases[case] = structs.replace(result, verdict=Verdict.BELOW_FLOOR if below else Verdict.PASS)
    return replace(run, cases=cases)


@dataclass(frozen=True, slots=True)
class Slowed:
    """A case with a slowdown mutant: its relative slowdown, its room above the floor, and the gate's verdict."""

    case: str
    slowdown: float
    room: float
    verdict: Verdict | None

    @property
    def missed(self) -> bool:
        """Whether it is slower by more than its room but not below its floor."""
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
    """The room in the comment on each floor of a floors.toml, as a fraction."""
    return {found["case"]: float(found["percent"]) / 100 for found in ROOM.finditer(floors)}


def left_out(runs: Sequence[Run]) -> list[Tried]:
    """For each GPU: floors from all others, tested on its runs."""
    gpus = {str(run.uuid) for run in runs}
    return [tried(runs, gpus - {gpu}) for gpu in sorted(gpus)]


def blocks() -> dict[str, str]:
    """The blocks of the page."""
    kept = [load_run(path) for path in sorted((BASELINES / "runs").glob("*-gate.json*"))]
    known = {run.uuid for run in kept}
    packed = [load_packed_run(path) for pattern in GATES for path in sorted((ROOT / "lab").glob(pattern))]
    others = [run for run in packed if run.uuid not in known]
    text = (BASELINES / "floors.toml").read_text("utf-8")
    floors = load_floors(BASELINES / "floors.toml").by_case
    pairs = zip(*(sorted((ROOT / "lab").glob(pattern)) for pattern in (HONEST, SLOWED)), strict=True)
    mutants = [
        each
        for honest, mutated in pairs
        for each in slowed(load_packed_run(honest), rejudged(load_packed_run(mutated), floors), rooms(text))
    ]
    return {
        "floors-held-out": splits(held_out(kept)),
        "floors-gates": of_other_gpus(gates([rejudged(run, floors) for run in others], floors)),
        "floors-left-out": of_each_gpu(left_out([*kept, *others]), len(kept) + len(others)),
        "floors-power": power([*kept, *others], floors),
        "floors-mutants": of_mutants(mutants),
    }


def splits(found: Sequence[Tried]) -> str:
    """One row per number of known GPUs."""
    head = ("GPUs known", "runs on other GPUs", "runs that fail", "after remeasuring", "upper 95 % limit", "cases")
    return table(
        head,
        [
            (each.known, each.runs, each.failed, each.again, _limit(each.again, each.runs), ", ".join(each.cases))
            for each in found
        ],
    )


def _limit(failed: int, of: int) -> str:
    return f"{100 * rate_at_most(failed / of, of):.1f} %"


def of_other_gpus(found: Tried) -> str:
    """Results of gates of unchanged code by the committed floors."""
    return (
        f"{found.runs} gates on {found.known} GPUs that no floor was set from: {found.failed} failed, upper 95 % limit "
        f"of the rate {_limit(found.failed, found.runs)}." + "".join(f"\n- {case}" for case in found.cases)
    )


def of_each_gpu(found: Sequence[Tried], runs: int) -> str:
    """Results of the gates of each GPU by floors from the others."""
    failed = [each for each in found if each.again]
    return (
        f"Floors from the other {len(found) - 1} GPUs, tried on all {runs} gates: {len(failed)} of {len(found)} GPUs "
        f"have a gate that fails, upper 95 % limit of the rate {_limit(len(failed), len(found))}."
        + "".join(f"\n- {', '.join(each.cases)}" for each in failed)
    )


def power(runs: Sequence[Run], floors: Mapping[str, float]) -> str:
    """The room of the committed floors, and how many sessions slowed by NOTABLE_SLOWDOWN they detect."""
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
    return table(head, rows)


def of_mutants(cases: Sequence[Slowed]) -> str:
    """The number of cases slower by more than their room that are below their floor."""
    beyond = [each for each in cases if each.slowdown > each.room]
    missed = [each for each in beyond if each.missed]
    lines = [
        f"\n- {each.case}: {100 * each.slowdown:.1f} % slower, room {100 * each.room:.1f} %, {each.verdict}"
        for each in missed
    ]
    return (
        f"{len(cases)} cases with a floor, of kernels with a mutant of slowdown-mutants.toml. {len(beyond)} are slower "
        f"by more than their room: {len(beyond) - len(missed)} of them BELOW_FLOOR, {len(missed)} not. The other "
        f"{len(cases) - len(beyond)} are for `ab` to detect." + "".join(lines)
    )


def _below(sessions: Sequence[Run], case: str, floor: float) -> bool:
    results = [run.cases[case].peak_fraction for run in sessions if case in run.cases]
    fractions = [fraction for fraction in results if fraction is not None]
    return bool(fractions) and statistics.median(fractions) < floor
