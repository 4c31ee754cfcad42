"""The change points of a history and the regressions among them that are still open; pure.

The sessions of all GPUs of a history are one series for each case, with a level for each GPU. What moves all cases at
once is taken out first (`suite`); known changes of the environment (driver, NVRTC, libraries, firmware, power limit)
are tried like any place, and a shift there is theirs. docs/explanation/change-points.md says how often they are wrong.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from peakgate.compare import noise
from peakgate.compare.evidence import SAME_CODE
from peakgate.compare.history import scan, search
from peakgate.compare.history.columns import LEAST_KNOWN, SHORTEST, Series
from peakgate.compare.history.levels import (
    ALIKE,
    YOUNGEST,
    Arrival,
    Change,
    Levels,
    Newest,
    Surprises,
    arrivals,
    levels,
    newest,
    newest_gpus,
)
from peakgate.compare.history.series import History, last_known
from peakgate.compare.history.steps import CODE_CHANGED, Place, locate
from peakgate.compare.history.suite import shared
from peakgate.compare.judge import FEWEST_CASES_FOR_SUITE, SMALLEST_SHIFT
from peakgate.compare.noise import Bools, Floats
from peakgate.runfile.schema import ENVIRONMENT

INTERVAL_ERROR = 0.01

NOW = 3
"""Sessions by which it is known where all cases together are."""

SETTLING = 5
"""So many sessions after a change of the environment that moved cases, a step is put down to it."""

MOST_CASES_SHARE = 0.5
"""A step that more of the cases make at one place is no single commit's."""

FEWEST_TURNS = 3
"""A case that went to and fro so often has two levels. Where another did at all, steps of its size may be such too."""


class Cause(StrEnum):
    """Cause of a change point."""

    COMMITS = "commits"
    ENVIRONMENT = "environment"
    DRIFT = "drift"


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of one case.

    ``log_ratio`` is its size with a 99 % interval, ``older_us`` the level before it; ``number`` counts the first
    session after it in the history, ``uuid`` is the GPU of that one, ``first_day`` the day of the first one known to be
    after it, and ``since`` counts the case's sessions since then. One that no commit made has no command.
    """

    case: str
    uuid: str | None
    cause: Cause
    place: Place
    number: int
    first_day: date
    since: int
    older_us: float
    log_ratio: float
    low: float
    high: float

    @property
    def change_percent(self) -> float:
        """Change of the time in percent, positive when slower."""
        return 100 * math.expm1(self.log_ratio)

    @property
    def interval_percent(self) -> tuple[float, float]:
        return 100 * math.expm1(self.low), 100 * math.expm1(self.high)


class NewestLevel(NamedTuple):
    """The level of a case at the end, and the smallest log shift that its newest five sessions would have shown.

    That is infinite where they are too few, or of GPUs that have hardly measured it before. Where the newest ``first``
    sessions are the first of their GPUs, which may differ by more, only a shift ``of_first`` would have shown in them.
    """

    level_us: float
    detectable: float
    first: int = 0
    of_first: float = 0.0


class Unconfirmed(NamedTuple):
    """A step of the newest sessions, too few to be a change point; ``older_us`` is the level before it.

    It may be the GPUs', if the sessions are the ``first`` of them.
    """

    sessions: int
    log_ratio: float
    older_us: float
    cause: Cause
    place: Place
    first: bool = False


class Judged(NamedTuple):
    """What was found of one series: its changes, newest first, its level, and what may have left that."""

    points: tuple[ChangePoint, ...]
    newest: NewestLevel | None
    unconfirmed: Unconfirmed | None


class Changes(NamedTuple):
    """Every change point of a history, newest first; by case, the newest level and what may have left it.

    ``suite`` is what all cases have in common, as a series of its own; None of too few. ``launch`` are the changes of
    the time that every launch takes longer, in microseconds.
    """

    points: tuple[ChangePoint, ...]
    newest: Mapping[str, NewestLevel]
    unconfirmed: Mapping[str, Unconfirmed]
    suite: Judged | None
    relative: Floats
    launch: tuple[tuple[Change, Place], ...]


@dataclass(frozen=True, slots=True)
class _Known:
    """A change of the environment, of one GPU after the other: the sessions after it, and the first of them."""

    sessions: Bools
    first: int

    def settling(self, number: int) -> bool:
        """Whether this session is among the first SETTLING after it."""
        return number in np.flatnonzero(self.sessions)[:SETTLING] or number == self.first


def find_changes(history: History) -> Changes:
    """Search every case, and all of them together."""
    gpus = np.zeros(len(history.facts), dtype=np.intp)
    for number, own in enumerate(history.by_gpu.values()):
        gpus[own] = number
    known = [_Known(each, int(each.argmax())) for each in _environment_changes(history)]
    columns = np.array([each.sessions for each in known], dtype=bool).reshape(len(known), len(gpus))
    common = shared(history.log_time, gpus, columns)
    hosts = [_Known(each, int(each.argmax())) for each in common.events]
    events = [*known, *hosts]
    columns = np.vstack([columns, common.events])
    cases = scan.cases(Series(history.log_time - common.removed, gpus, columns))
    there = [(row, case) for row, case in enumerate(cases) if case]
    found = {row: levels(case, len(there)) for row, case in there}
    surprises = Surprises.of(list(found.values()))
    arrived = {row: arrivals(each, len(there), math.exp(each.offset)) for row, each in found.items()}
    young = {
        row: newest(each, surprises, len(there)) or newest_gpus(each, surprises, arrived[row])
        for row, each in found.items()
    }
    if common.launch and newest(common.launch, Surprises.of([common.launch]), 1):
        young = {row: None if each and _as_a_host(each, found[row]) else each for row, each in young.items()}
    context = _Context(history, events, len(known), list(found.values()), common.per_launch_us)
    judged = {
        history.cases[row]: context.judged(
            row, each, young[row], arrived[row], float(np.median(common.removed[row, each.at[-NOW:]]))
        )
        for row, each in found.items()
    }
    points = sorted(
        itertools.chain.from_iterable(each.points for each in judged.values()),
        key=lambda each: (-each.number, -abs(each.log_ratio), each.case),
    )
    suite: Judged | None = None
    launch: list[tuple[Change, Place]] = []
    if common.suite and common.launch:
        of_suite, alone = Surprises.of([common.suite]), arrivals(common.suite, 1, math.inf)
        step = newest(common.suite, of_suite, 1) or newest_gpus(common.suite, of_suite, alone)
        suite = context.judged(None, common.suite, step, alone)
        at = common.launch.at
        launch = [(each, locate(history, None, at, each.good, each.bad)) for each in common.launch.changes]
    return Changes(
        tuple(points),
        {case: each.newest for case, each in judged.items() if each.newest},
        {case: each.unconfirmed for case, each in judged.items() if each.unconfirmed},
        suite,
        common.share,
        tuple(launch),
    )


def _environment_changes(history: History) -> Iterator[Bools]:
    """For each change of the environment the sessions after it, on whichever GPU, each since its own change."""
    found: dict[tuple[object, ...], Bools] = {}
    for numbers in history.by_gpu.values():
        facts = history.facts.loc[numbers, list(ENVIRONMENT)]
        before, changed = last_known(facts)
        times: dict[tuple[object, ...], int] = {}
        for at in np.flatnonzero(changed.any(axis=1)):
            names = changed.columns[changed.iloc[at]]
            what = (*names, *before.iloc[at][names], *facts.iloc[at][names])
            times[what] = times.get(what, 0) + 1
            after = found.setdefault((*what, times[what]), np.zeros(len(history.facts), dtype=bool))
            after[numbers[at:]] = True
    yield from found.values()


class _Context:
    """What the attribution of one case's changes needs of the others."""

    def __init__(
        self, history: History, events: Sequence[_Known], known: int, there: Sequence[Levels], launch: Floats
    ) -> None:
        self.history, self.events, self.known, self.launch = history, events, known, launch
        columns = [(each, change) for each in there for change in each.changes]
        chosen = {change.column.known for _, change in columns}
        self.moved = [
            event for number, event in enumerate(events) if number in chosen or _moved_newest(number, event, there)
        ]
        self.cuts = [
            (int(each.at[change.good]), int(each.at[change.bad])) for each, change in columns if change.column.is_cut
        ]
        self.cases = len(there)
        self.stepped = [each for each in there if each.turns]
        self.unsteady = [each for each in there if each.turns > 1]

    def judged(
        self, row: int | None, found: Levels, young: Newest | None, arrived: Sequence[Arrival], removed: float = 0.0
    ) -> Judged:
        points = [self._point(row, found, change) for change in found.changes if abs(change.shift) > SMALLEST_SHIFT]
        last = len(found.at) - 1
        level = found.level(last) + found.wandered() + removed
        unconfirmed = self._unconfirmed(row, found, young) if young and young.log_ratio > 0 else None
        end = NewestLevel(math.exp(level), found.detectable)
        if arrived and arrived[0].sessions <= SHORTEST and arrived[0].detectable > found.detectable:
            end = end._replace(first=arrived[0].sessions, of_first=arrived[0].detectable)
        return Judged(tuple(points[::-1]), end, unconfirmed)

    def _unconfirmed(self, row: int | None, found: Levels, young: Newest) -> Unconfirmed:
        cut = len(found.at) - young.sessions
        place = locate(self.history, row, found.at, cut - 1, cut)
        cause = self._cause(row, place, int(found.at[cut - 1]), int(found.at[-1]))
        place = place if cause is Cause.COMMITS else place._replace(command=None)
        older = found.level(cut - 1) + found.wandered(young.sessions)
        return Unconfirmed(young.sessions, young.log_ratio, math.exp(older), cause, place, young.first)

    def _point(self, row: int | None, found: Levels, change: Change) -> ChangePoint:
        column, at = change.column, found.at
        good, bad = change.good, change.bad
        if column.known is not None and column.known < self.known:
            good, bad = self._beside(found, column.known)
        place = locate(self.history, row, at, good, bad)
        number = int(at[bad if column.known is not None else column.start])
        if column.known is not None:
            cause = Cause.ENVIRONMENT
        elif not column.is_cut:
            cause = Cause.DRIFT
        else:
            cause = self._cause(row, place, int(at[change.good]), int(at[change.bad]))
            excused = self._of_a_state(found, change) or self._of_a_host(found, change, place)
            cause = Cause.ENVIRONMENT if excused else cause
        quantile = float(noise.upper_quantile(INTERVAL_ERROR / 2, change.df))
        measured = [each for each in at.tolist() if each >= place.bad] or [place.bad]
        before = column.start - 1 if column.is_cut else max(0, column.start - 1)
        return ChangePoint(
            case="" if row is None else self.history.cases[row],
            uuid=self.history.sessions[number].uuid,
            cause=cause,
            place=place if cause is Cause.COMMITS else place._replace(command=None),
            number=number,
            first_day=min(self.history.sessions[each].taken for each in measured).date(),
            since=len(at) - column.start,
            older_us=math.exp(found.level(before)),
            log_ratio=change.shift,
            low=change.shift - quantile * change.error,
            high=change.shift + quantile * change.error,
        )

    def _beside(self, found: Levels, known: int) -> tuple[int, int]:
        """The case's sessions beside a change of the environment, of the GPU that made it first."""
        after = self.events[known].sessions[found.at]
        bad = int(after.argmax())
        gpus = found.case.pattern.design.gpus
        same = np.flatnonzero((gpus[:bad] == gpus[bad]) & ~after[:bad])
        return (int(same[-1]) if len(same) else max(0, bad - 1)), bad

    def _cause(self, row: int | None, place: Place, good: int, bad: int) -> Cause:
        """Of a step after the session ``good`` and not after ``bad``."""
        sessions = self.history.sessions
        first, last = sessions[place.good], sessions[place.bad]
        one_commit = not first.dirty and not last.dirty and first.commit == last.commit
        if row is None or one_commit or SAME_CODE in place.facts:
            return Cause.ENVIRONMENT
        if any(good < event.first <= bad or event.settling(bad) for event in self.moved):
            return Cause.ENVIRONMENT
        if self.cases < FEWEST_CASES_FOR_SUITE:
            return Cause.COMMITS
        together = sum(low < bad and good < high for low, high in self.cuts)
        if together > MOST_CASES_SHARE * self.cases:
            return Cause.ENVIRONMENT
        return Cause.COMMITS

    def _of_a_host(self, found: Levels, change: Change, place: Place) -> bool:
        """Whether a step may be what another host adds to every launch: what every launch takes moved with it.

        A step of every launch is likelier than none where the estimate is nearer to it. Too few cases have no such
        estimate; there only machine code that changed speaks for a commit.
        """
        size = change.shift * math.exp(found.offset)
        if abs(size) > noise.PROCESS_OFFSET_US:
            return False
        if self.cases < FEWEST_CASES_FOR_SUITE:
            return CODE_CHANGED not in place.facts
        chosen, design = list(found.chosen), found.case.pattern.design
        towards = design.columns[chosen] @ design.precision[0] @ self.launch[found.at]
        moved = np.linalg.solve(design.gram[0][np.ix_(chosen, chosen)], towards)[found.changes.index(change)]
        return bool(moved / size > 0.5)

    def _of_a_state(self, found: Levels, change: Change) -> bool:
        """Whether a step is one of those by which cases go to and fro without a commit."""
        turns = found.turns
        if turns >= FEWEST_TURNS or (turns > 1 and found.remembers):
            return True
        others = [each for each in (self.unsteady if turns < 2 else self.stepped) if each is not found]
        largest = max((each.largest for each in others), default=0.0)
        return abs(change.shift) <= ALIKE * max(largest, found.jump() if found.remembers else 0.0)


def _as_a_host(young: Newest, found: Levels | None) -> bool:
    """Whether a young step may be what another host adds to every launch."""
    return found is not None and abs(young.log_ratio) * math.exp(found.offset) <= noise.PROCESS_OFFSET_US


def _moved_newest(number: int, event: _Known, found: Sequence[Levels]) -> bool:
    """Whether an event of the newest few sessions moved a case, as its newest sessions alone show."""
    after = int(event.sessions.sum())
    if not 0 < after <= YOUNGEST:
        return False
    for each in found:
        case = each.case
        new = event.sessions[case.pattern.at]
        if not new.any():
            continue
        raw = case.of(np.where(new, case.raw, case.values))
        given = raw.given(each.chosen)
        index = next(i for i, column in enumerate(case.pattern.columns) if column.known == number)
        if given.known[0, index] > LEAST_KNOWN and raw.scores(given)[index] > raw.least_score(
            search.ERROR / len(found)
        ):
            return True
    return False
