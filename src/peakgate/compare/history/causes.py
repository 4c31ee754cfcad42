"""The cause of a change point and its commits: by what else changed, and by the changes of all cases; pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from peakgate.base.formatting import counted
from peakgate.compare import noise
from peakgate.compare.evidence import NO_COMMIT, SAME_CODE
from peakgate.compare.history.levels import LEAST_INFORMATION, SHORTEST, row_medians
from peakgate.compare.history.newest import YOUNGEST, Arrival, Newest
from peakgate.compare.history.series import History, commit_name
from peakgate.compare.history.steps import ALIKE, ERROR, Change, Levels
from peakgate.compare.judge import FEWEST_CASES_FOR_SUITE, SMALLEST_SHIFT
from peakgate.compare.noise import Bools, Floats, Positions
from peakgate.compare.result import shift_percent
from peakgate.runfile.frame import GPU_NAMES
from peakgate.runfile.schema import ENVIRONMENT

SETTLING = 5  # a step this many sessions after a change of the environment that moved cases is attributed to it
MOST_CASES_SHARE = 0.5  # a step that a larger share of the cases makes at one position is not attributed to a commit

# A case that alternated so often has two levels. If one alternated at all, steps of its size may be due to that in
# other cases too.
FEWEST_TURNS = 3

CLOCK_SHIFT = 0.01  # larger relative differences of the SM clock are reported
HOST_SHARE = 0.15  # a host's event moves more than this share of the cases that would show it
HOST_SESSIONS = 10  # on each side of an event are compared
SURELY_MOVED = 3.0  # standard errors
CODE_CHANGED = "its code changed"
BACK_AND_FORTH = "it or another case goes back and forth by as much"
ONE_COMMIT = "within one commit"


class Cause(StrEnum):
    """Cause of a change point."""

    COMMITS = "commits"
    ENVIRONMENT = "environment"
    DRIFT = "drift"


class Place(NamedTuple):
    """The position of a step: after session number ``good`` and no later than ``bad``.

    ``between`` is the number of sessions that may be on either side; ``where`` is a text with all three. ``facts``
    lists what else changed, or that the code did not. ``command`` measures the two commits alternately; None without
    two different clean commits, or if the code is the same, as ``facts`` then say.
    """

    good: int
    bad: int
    between: int
    where: str
    facts: tuple[str, ...]
    command: str | None


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of one case.

    ``log_ratio`` is its size with a 99 % interval, ``older_us`` the level before it; ``number`` is the first session
    after it, ``uuid`` that session's GPU; ``first_day`` is the date of the first session known to be after it, and
    ``since`` the number of the case's sessions after it. Only changes caused by commits have a command.
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
        return shift_percent(self.log_ratio)

    @property
    def interval_percent(self) -> tuple[float, float]:
        return shift_percent(self.low), shift_percent(self.high)


class Unconfirmed(NamedTuple):
    """A step of the newest sessions, which are too few for a change point; ``older_us`` is the level before it.

    If the sessions are the ``first`` of their GPUs, the GPUs may be the cause.
    """

    sessions: int
    log_ratio: float
    older_us: float
    cause: Cause
    place: Place
    first: bool = False


class Judged(NamedTuple):
    """The result of one series: its changes, newest first, its current level, and an unconfirmed step.

    ``detectable`` is the smallest log shift detectable in the newest five sessions; infinite if they are too few, or on
    GPUs that have hardly measured it before. If the newest ``first`` sessions are the first of their GPUs, which may
    differ, only a shift of ``of_first`` is detectable in them. ``may_drift``: it became slower slowly, and with so few
    cases that cannot be separated from correlated noise.
    """

    points: tuple[ChangePoint, ...]
    level_us: float
    detectable: float
    first: int = 0
    of_first: float = 0.0
    unconfirmed: Unconfirmed | None = None
    may_drift: bool = False


class Causes:
    """Attributes changes to causes, considering the changes of all cases."""

    def __init__(
        self,
        history: History,
        events: Bools,
        known: int,
        found: Mapping[int, Levels],
        launch: Floats,
        *,
        of_host: bool,
    ) -> None:
        self.of_host = of_host
        self.history, self.events, self.known, self.launch = history, events, known, launch
        there = list(found.values())
        changes = [(each, change) for each in there for change in each.changes]
        chosen = {change.column.known for _, change in changes}
        # the sessions after each change of the environment that moved a case
        self.moved = [
            np.flatnonzero(event)
            for number, event in enumerate(events)
            if number in chosen or _moved_newest(number, event, there)
        ]
        # the sessions before and after each step, (2, case, step), as many as any case has
        cuts = [[change for change in each.changes if change.column.is_cut] for each in there]
        self.cuts = np.full((2, len(there), max(map(len, cuts), default=0)), np.inf)
        for number, (each, steps) in enumerate(zip(there, cuts, strict=True)):
            for place, change in enumerate(steps):
                self.cuts[:, number, place] = each.at[change.good], each.at[change.bad]
        self.cases = len(there)
        self.levelled = np.full((len(there), len(history.facts)), np.nan)  # log times less the levels of the GPUs
        for levels, each in zip(self.levelled, there, strict=True):
            levels[each.at] = each.residuals + each.steps
        self.times_us = np.exp([each.offset for each in there])
        self.sds = np.array([each.sd for each in there])
        self.rows = list(found)
        self.codes = history.codes.to_numpy()[self.rows]
        self.clocks = history.table("sm_clock_mhz")  # as a share of the GPU's median: GPUs of one model differ
        for own in history.by_gpu.values():
            self.clocks[own] = self.clocks[own].div(self.clocks[own].median(axis=1), axis=0)
        self.steady = np.array([not each.is_correlated for each in there], dtype=bool)
        self.turns = np.array([each.turns_of(codes[each.at]) for each, codes in zip(there, self.codes, strict=True)])
        self.largest = np.array([each.largest for each in there])

    def judged(
        self, row: int | None, found: Levels, young: Newest | None, arrived: Sequence[Arrival], removed: float = 0.0
    ) -> Judged:
        """Changes, level and newest step of one case, or of the common shift (``row`` is None)."""
        points = [self._point(row, found, change) for change in found.changes if abs(change.shift) > SMALLEST_SHIFT]
        level_us = math.exp(found.level(-1) + found.wandered() + removed)
        may_drift = self.cases < FEWEST_CASES_FOR_SUITE and found.may_drift
        judged = Judged(tuple(points[::-1]), level_us, found.detectable, may_drift=may_drift)
        if arrived and arrived[0].sessions <= SHORTEST and arrived[0].detectable > found.detectable:
            judged = judged._replace(first=arrived[0].sessions, of_first=arrived[0].detectable)
        if young and young.log_ratio > 0:
            cut = len(found.at) - young.sessions
            place = locate(self.history, row, found.at, cut - 1, cut)
            cause = self._cause(row, place, int(found.at[cut - 1]), int(found.at[-1]), young.log_ratio)
            place = place if cause is Cause.COMMITS else place._replace(command=None)
            older_us = math.exp(found.level(cut - 1) + found.wandered(young.sessions))
            unconfirmed = Unconfirmed(young.sessions, young.log_ratio, older_us, cause, place, young.first)
            judged = judged._replace(unconfirmed=unconfirmed)
        return judged

    def _point(self, row: int | None, found: Levels, change: Change) -> ChangePoint:
        column, at, sessions = change.column, found.at, self.history.sessions
        good, bad = change.good, change.bad
        if column.known is not None and column.known < self.known:
            # the case's sessions before and after a change of the environment, on the GPU that changed first
            after, gpus = self.events[column.known][at], found.case.design.gpus
            bad = int(after.argmax())
            same = np.flatnonzero((gpus[:bad] == gpus[bad]) & ~after[:bad])
            good = int(same[-1]) if len(same) else max(0, bad - 1)
        place = locate(self.history, row, at, good, bad)
        if row is not None and column.is_cut and SAME_CODE in place.facts:
            # An odd session beside the step moves it into the sessions of one build.
            codes = self.codes[self.rows.index(row), at[change.earliest : change.latest + 1]]
            builds = [number for number, (old, new) in enumerate(itertools.pairwise(codes)) if old != new]
            if len(builds) == 1:
                good = change.earliest + builds[0]
                bad = good + 1
                place = locate(self.history, row, at, good, bad)
        number = int(at[bad if column.known is not None else column.start])
        if column.is_slow:
            cause = Cause.DRIFT
        elif column.known is not None:
            cause = Cause.ENVIRONMENT
        elif self._of_a_state(row, found, change, place):
            cause = Cause.ENVIRONMENT
            if not {SAME_CODE, ONE_COMMIT} & {*place.facts}:  # which are reason enough
                place = place._replace(facts=(*place.facts, BACK_AND_FORTH))
        else:
            cause = self._cause(row, place, int(at[good]), int(at[bad]), change.shift)
        if cause is Cause.COMMITS and self._of_a_host(found, change, place):
            cause = Cause.ENVIRONMENT
        measured = [each for each in at.tolist() if each >= place.bad] or [place.bad]
        before = column.start - 1 if column.is_cut else max(0, column.start - 1)
        return ChangePoint(
            case="" if row is None else self.history.cases[row],
            uuid=sessions[number].uuid,
            cause=cause,
            place=place if cause is Cause.COMMITS else place._replace(command=None),
            number=number,
            first_day=min(sessions[each].taken for each in measured).date(),
            since=len(at) - column.start,
            older_us=math.exp(found.level(before)),
            log_ratio=change.shift,
            low=change.low,
            high=change.high,
        )

    def _cause(self, row: int | None, place: Place, good: int, bad: int, log_ratio: float) -> Cause:
        """The cause of a step by ``log_ratio`` after session ``good`` and no later than ``bad``."""
        first, last = self.history.sessions[place.good], self.history.sessions[place.bad]
        one_commit = not first.dirty and not last.dirty and first.commit == last.commit
        if row is None or one_commit or SAME_CODE in place.facts:
            return Cause.ENVIRONMENT
        # The SM clock of all cases, or that of this one of a few, may explain half of the step.
        whole = self.cases >= FEWEST_CASES_FOR_SUITE
        clocks = (self.clocks.median() if whole else self.clocks.loc[self.history.cases[row]]).to_numpy()
        slower = math.log(clocks[place.good] / clocks[place.bad])
        if abs(slower) > CLOCK_SHIFT and slower / log_ratio > 0.5:  # False for NaN, which is unknown
            return Cause.ENVIRONMENT
        if any(good < after[0] <= bad or bad in after[:SETTLING] for after in self.moved):
            return Cause.ENVIRONMENT
        there = np.ones(self.cases, dtype=bool) if (same := self._same_code(good, bad)) is None else same
        together = np.count_nonzero(there & ((self.cuts[0] < bad) & (good < self.cuts[1])).any(axis=1))
        if whole and together > MOST_CASES_SHARE * np.count_nonzero(there):
            return Cause.ENVIRONMENT
        return Cause.COMMITS

    def _of_a_state(self, row: int | None, found: Levels, change: Change, place: Place) -> bool:
        """Whether a step is one of those by which a case alternates between levels without a commit.

        Where its code changed, other cases that alternate are no reason to believe so.
        """
        own = -1 if row is None else self.rows.index(row)
        turns = found.turns if row is None else int(self.turns[own])
        if turns >= FEWEST_TURNS or (turns > 1 and found.is_correlated):
            return True
        others = (self.turns > (1 if turns < 2 else 0)) & (np.arange(self.cases) != own)
        largest = 0.0 if CODE_CHANGED in place.facts else self.largest[others].max(initial=0.0)
        return bool(abs(change.shift) <= ALIKE * max(largest, found.jump() if found.is_correlated else 0.0))

    def _of_a_host(self, found: Levels, change: Change, place: Place) -> bool:
        """Whether a step may be what another host adds to every launch.

        A step of the host's time is if it is small enough, and the code not known to have changed. A step of the GPU's
        is if many cases moved with it, or the common time per launch by more than half of it; the latter only if the
        code of too few cases is known to be the same. With too few cases, only a step with changed code is not.
        """
        if self.of_host:
            return abs(change.shift) <= noise.OF_ANOTHER_HOST and CODE_CHANGED not in place.facts
        size_us = change.shift * math.exp(found.offset)
        if abs(size_us) > noise.PROCESS_OFFSET_US:
            return False
        if self.cases < FEWEST_CASES_FOR_SUITE:
            return CODE_CHANGED not in place.facts
        good, bad = int(found.at[change.good]), int(found.at[change.bad])
        if self.of_many(size_us, good, bad):
            return True
        if self._same_code(good, bad) is not None:
            return False
        chosen, design = list(found.chosen), found.case.design
        towards = design.columns[chosen] @ design.precision[0] @ self.launch[found.at]
        moved = np.linalg.solve(design.gram[0][np.ix_(chosen, chosen)], towards)[found.changes.index(change)]
        return bool(moved / size_us > 0.5)

    def _same_code(self, good: int, bad: int) -> Bools | None:
        """Which cases are known to have the same machine code in both sessions; None if too few are."""
        codes = zip(self.codes[:, good], self.codes[:, bad], strict=True)
        same = np.array([isinstance(old, str) and old == new for old, new in codes], dtype=bool)
        return same if np.count_nonzero(same) >= FEWEST_CASES_FOR_SUITE else None

    def of_many(self, size_us: float, good: int, bad: int) -> bool:
        """Whether HOST_SHARE of the steady cases that would show a shift like this moved by up to PROCESS_OFFSET_US.

        Medians of up to HOST_SESSIONS sessions until ``good`` and from ``bad`` on are compared. If the code of enough
        cases is the same on both sides, these alone count: a commit moves others.
        """
        before = self.levelled[:, max(0, good + 1 - HOST_SESSIONS) : good + 1]
        after = self.levelled[:, bad : bad + HOST_SESSIONS]
        counts = [np.isfinite(each).sum(axis=1) for each in (before, after)]
        there = (np.minimum(*counts) > 0) & self.steady
        if (same := self._same_code(good, bad)) is not None:
            there &= same
        moved_us = (row_medians(after) - row_medians(before)) * self.times_us
        error_us = self.sds * self.times_us * np.sqrt(sum(1 / np.maximum(each, 1) for each in counts))
        shows = there & (SURELY_MOVED * error_us < abs(size_us))
        moved_us *= np.sign(size_us)  # what takes longer in every launch makes no case faster
        surely = shows & (moved_us > SURELY_MOVED * error_us) & (moved_us < noise.PROCESS_OFFSET_US)
        return bool(np.count_nonzero(surely) > max(1, HOST_SHARE * np.count_nonzero(shows)))


def _moved_newest(number: int, event: Bools, found: Sequence[Levels]) -> bool:
    """Whether a change of the environment in the newest few sessions moved a case."""
    for each in found if event.sum() <= YOUNGEST else ():
        case, new = each.case, event[each.at]
        if not new.any():
            continue
        raw = case.of(np.where(new, case.raw, case.values))
        given = raw.given(each.chosen)
        index = next(place for place, column in enumerate(case.design.steps) if column.known == number)
        least = raw.least_score(ERROR / len(found))
        if given.information[0, index] > LEAST_INFORMATION and raw.scores(given)[index] > least:
            return True
    return False


def locate(history: History, row: int | None, numbers: Positions, first: int, last: int) -> Place:
    """The place of a step between positions ``first`` and ``last`` of ``numbers``; ``row`` is None for the suite."""
    sessions = [history.sessions[number] for number in numbers]
    clean = [not each.dirty and each.commit not in NO_COMMIT for each in sessions]
    first = next((at for at in range(first, -1, -1) if clean[at]), first)
    last = next((at for at in range(last, len(sessions)) if clean[at]), last)
    before, after, good, bad = sessions[first], sessions[last], int(numbers[first]), int(numbers[last])
    facts = []
    of_case = None if row is None else history.rows.loc[[(history.cases[row], each) for each in (good, bad)]]
    if of_case is not None and all(code := of_case["fingerprint"].tolist()):
        if code[0] != code[1]:
            facts.append(CODE_CHANGED)
        elif of_case["kernels"].isna().all():  # the kernels of a callable may be given other numbers
            facts.append(SAME_CODE)
    if before.uuid == after.uuid:
        old, new = history.facts.loc[[good, bad], list(ENVIRONMENT)].to_dict("records")
        facts += [
            f"{GPU_NAMES[name]} {old[name]} to {new[name]}"
            for name in ENVIRONMENT
            if old[name] is not None and new[name] is not None and old[name] != new[name]
        ]
    if of_case is not None:
        old_mhz, new_mhz = of_case["sm_clock_mhz"].to_numpy()
        if abs(new_mhz / old_mhz - 1) > CLOCK_SHIFT:  # False for NaN, which is unknown
            facts.append(f"SM clock {old_mhz:.0f} to {new_mhz:.0f} MHz")
    command = None
    if not (clean[first] and clean[last]):
        facts.append("no clean commit on both sides of it")
    elif before.commit == after.commit:
        facts.append(ONE_COMMIT)
    elif SAME_CODE not in facts:
        command = f"peakgate ab {before.commit[:12]} {after.commit[:12]}"
    between = last - first - 1
    undecided = f", {counted(between, 'session')} in between undecided" if between else ""
    names = [f"{commit_name(each)} ({each.taken:%Y-%m-%d})" for each in (before, after)]
    where = f"after {names[0]} and not after {names[1]}{undecided}"
    return Place(good, bad, between, where, tuple(facts), command)
