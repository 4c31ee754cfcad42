"""Saved sessions in the order they were taken, as one time series a case, and between which of them a step is; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

import numpy as np
from peakgate.case import EMULATOR_SLUG
from peakgate.common.errors import PeakgateError
from peakgate.common.text import counted, one_line
from peakgate.reports.comparison.evidence import NO_COMMIT
from peakgate.reports.comparison.noise import Floats, Positions
from peakgate.reports.runs.facts import GPU_NAMES
from peakgate.reports.runs.sessions import ENVIRONMENT, SavedSession

WHOLE_SESSIONS_TO_RETIRE = 5
"""A case that so many whole sessions of a tier it was once in did not measure is no longer part of the suite."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something besides the code that changed with session number ``index``: its driver, or the GPU it ran on."""

    index: int
    what: str
    before: str
    after: str


@dataclass(frozen=True)
class History:
    """The sessions of one GPU model, oldest first.

    ``time_us`` holds the medians as an array (case, session), NaN where a session does not have the case, or is of
    before the case moved to another tier. ``retired`` are cases that are no longer measured; they have no row.
    """

    slug: str
    sessions: tuple[SavedSession, ...]
    cases: tuple[str, ...]
    time_us: Floats
    marks: tuple[Mark, ...]
    retired: tuple[str, ...] = ()

    @cached_property
    def log_time(self) -> Floats:
        """Natural logarithm of ``time_us``."""
        return np.log(self.time_us)

    @property
    def gpus(self) -> int:
        """How many GPUs the sessions are of; those whose uuid is unknown count as one GPU."""
        return len(self.by_gpu)

    @cached_property
    def by_gpu(self) -> dict[str | None, Positions]:
        """The numbers of each GPU's sessions, GPUs in the order they came."""
        numbers: dict[str | None, list[int]] = {}
        for number, session in enumerate(self.sessions):
            numbers.setdefault(session.uuid, []).append(number)
        return {uuid: np.array(own, dtype=np.intp) for uuid, own in numbers.items()}


def history(sessions: Iterable[SavedSession], slug: str | None = None, parts: Sequence[str] = ()) -> History:
    """The history of the GPU model ``slug``, by default the only one there is, emulators apart.

    With ``parts`` only cases that have one of them in their id. A PeakgateError says which GPU models there are when
    the choice is open, or what was not found.
    """
    distinct = _distinct(sessions)
    chosen = _chosen(distinct, slug)
    kept = sorted((each for each in distinct if each.slug == chosen), key=lambda each: (each.taken, each.path))
    named = sorted(_timed(kept))
    wanted = [case for case in named if not parts or any(part in case for part in parts)]
    if not wanted:
        what = f"has {' or '.join(map(repr, parts))} in its id" if parts else "was timed"
        there = f"{counted(len(named), 'case')} in {counted(len(kept), 'run')}"
        raise PeakgateError(f"{chosen}: none of the {there} {what}; give another part")
    left_at = {case: at for case, at in _left_out(kept).items() if case in wanted}
    retired = left_at.keys() - _timed_since(kept, left_at)
    cases = tuple(case for case in wanted if case not in retired)
    times = np.array([[*map(each.times_us.get, cases, repeat(math.nan))] for each in kept])
    for case in left_at.keys() - retired:
        times[: left_at[case], cases.index(case)] = math.nan
    # Case by session in memory too, since everything after this walks along a case's sessions.
    time_us = np.ascontiguousarray(times.reshape(len(kept), len(cases)).T)
    return History(chosen, tuple(kept), cases, time_us, marks(kept), tuple(sorted(retired)))


def marks(sessions: Sequence[SavedSession]) -> tuple[Mark, ...]:
    """Where driver or GPU differ from those of the session before that knew them."""
    found = []
    known: dict[str, str] = {}
    for index, session in enumerate(sessions):
        for what, value in (("driver", session.driver), ("GPU", session.uuid)):
            if value is None:
                continue
            if known.get(what, value) != value:
                found.append(Mark(index, what, known[what], value))
            known[what] = value
    return tuple(found)


def _chosen(sessions: Iterable[SavedSession], slug: str | None) -> str:
    there = sorted({session.slug for session in sessions})
    judged = [each for each in there if each != EMULATOR_SLUG]
    if slug == EMULATOR_SLUG:
        raise PeakgateError(f"--gpu {slug}: emulated times are not judged; name a GPU model")
    if slug is not None and slug not in judged:
        raise PeakgateError(f"--gpu {slug}: no saved run of it; there are runs of {', '.join(there) or 'no GPU'}")
    if slug is None and len(judged) > 1:
        raise PeakgateError(f"there are runs of {' and '.join(judged)}; choose one with --gpu")
    if not judged:
        only = "only emulated runs, whose times are not judged" if there else "no saved run"
        raise PeakgateError(f"{only}: measure on a GPU with `peakgate bench`, or name a folder of runs with --runs")
    return slug or judged[0]


def _left_out(sessions: Sequence[SavedSession]) -> dict[str, int]:
    """The cases that the newest whole sessions of a tier leave out, though earlier ones of that tier had them.

    With the number of the first whole session of that tier without them, of the last tier that left them out.
    """
    left_at: dict[str, int] = {}
    for tier in {session.tier for session in sessions}:
        whole = [number for number, each in enumerate(sessions) if each.whole and each.tier == tier]
        older, newest = whole[:-WHOLE_SESSIONS_TO_RETIRE], whole[-WHOLE_SESSIONS_TO_RETIRE:]
        for case in _timed(sessions[number] for number in older) - _timed(sessions[number] for number in newest):
            last = max(number for number in older if case in sessions[number].times_us)
            left_at[case] = max(left_at.get(case, 0), next(number for number in whole if number > last))
    return left_at


def _timed_since(sessions: Sequence[SavedSession], left_at: Mapping[str, int]) -> set[str]:
    """The cases that some session has timed since a tier left them out: they moved to another tier."""
    return {case for case, first in left_at.items() if any(case in each.times_us for each in sessions[first:])}


def _timed(sessions: Iterable[SavedSession]) -> set[str]:
    return set().union(*(session.times_us for session in sessions))


def _distinct(sessions: Iterable[SavedSession]) -> list[SavedSession]:
    """The sessions without copies of a run file: one of those that share time, GPU, commit and all times."""
    alike: dict[tuple[object, ...], list[SavedSession]] = {}
    for session in sessions:
        alike.setdefault((session.taken, session.uuid, session.commit), []).append(session)
    kept: list[SavedSession] = []
    for group in alike.values():
        last = {frozenset(each.times_us.items()) if len(group) > 1 else None: each for each in group}
        kept += last.values()
    return kept


FARTHEST_SDS = 3.0
"""A session farther off than this counts as this far: one odd session is no step."""

DOUBT = 5.0
"""Positions whose squared misfit, in variances, is this close to the best are not separated; see `plausible`."""

CLOCK_SHIFT = 0.01
"""SM clocks that differ by more than this share are worth a word."""


@dataclass(frozen=True, slots=True)
class LevelStep:
    """A step after the session ``before`` and not after the session ``after``.

    ``between`` counts the sessions of which it is not known on which side they are. ``facts`` are what changed
    besides, or that the code did not. ``command`` settles it by measuring the two commits alternately; None where two
    clean commits to measure are not known, as ``facts`` then say.
    """

    before: SavedSession
    after: SavedSession
    between: int
    facts: tuple[str, ...]
    command: str | None

    @property
    def place(self) -> str:
        """``after a1b2c3 (2026-11-01) and not after ...``."""
        between = f", {counted(self.between, 'session')} in between undecided" if self.between else ""
        return f"after {session_name(self.before)} and not after {session_name(self.after)}{between}"


def session_name(session: SavedSession) -> str:
    """A session by its commit and day."""
    return f"{commit_name(session)} ({session.taken:%Y-%m-%d})"


def commit_name(session: SavedSession) -> str:
    """A session's commit."""
    return one_line(f"{session.commit[:12]}{' with uncommitted changes' if session.dirty else ''}")


def locate(
    case: str, sessions: Sequence[SavedSession], log_time: Floats, sd: float, known: int | None = None
) -> LevelStep:
    """The step in one case's sessions, oldest first and all of one GPU, given the SD of one session's log time.

    ``known`` is the position of the first session after it where that is known.
    """
    first, last = plausible(log_time, sd) if known is None else (known - 1, known)
    before, after = _clean(sessions[first::-1]), _clean(sessions[last:])
    good, bad = before or sessions[first], after or sessions[last]
    facts = _changes(case, good, bad)
    command = None
    if before is None or after is None:
        facts.append("no clean commit on both sides of it")
    elif before.commit == after.commit:
        facts.append("within one commit: environment")
    else:
        command = f"peakgate ab {good.commit[:12]} {bad.commit[:12]}"
    return LevelStep(good, bad, sessions.index(bad) - sessions.index(good) - 1, tuple(facts), command)


def plausible(log_time: Floats, sd: float) -> tuple[int, int]:
    """The positions between which the step happened: it comes after the first and not after the second.

    For each way to cut the series in two, the misfit to the medians of both parts; kept are the cuts whose misfit is
    within DOUBT of the least. In simulated steps of 2, 3 and 4 SDs, 5 to 25 sessions before the end of 35 of which 2 %
    were odd, the range held the step in 98 to 99 % and was 5, 2 and 1 sessions wide in the median.
    """
    misfits = np.array([_misfit(log_time[:cut], sd) + _misfit(log_time[cut:], sd) for cut in range(1, len(log_time))])
    kept = np.flatnonzero(misfits <= misfits.min() + DOUBT)
    return int(kept[0]), int(kept[-1]) + 1


def _misfit(part: Floats, sd: float) -> float:
    scaled = np.abs(part - np.median(part)) / sd
    return float(np.sum(np.minimum(scaled, FARTHEST_SDS) ** 2))


def _clean(outwards: Sequence[SavedSession]) -> SavedSession | None:
    """The nearest session whose code is a commit that can be checked out."""
    return next((each for each in outwards if not each.dirty and each.commit not in NO_COMMIT), None)


def _changes(case: str, good: SavedSession, bad: SavedSession) -> list[str]:
    facts = []
    prints = good.fingerprints.get(case), bad.fingerprints.get(case)
    if prints[0] and prints[1]:
        facts.append("same code: environment" if prints[0] == prints[1] else "its code changed")
    known = [{**({"driver": each.driver} if each.driver else {}), **each.environment} for each in (good, bad)]
    facts += environment_changes(*known)
    clocks = good.clocks_mhz.get(case), bad.clocks_mhz.get(case)
    if clocks[0] and clocks[1] and abs(clocks[1] / clocks[0] - 1) > CLOCK_SHIFT:
        facts.append(f"SM clock {clocks[0]:.0f} to {clocks[1]:.0f} MHz")
    return facts


def environment_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """``driver 580.1 to 590.1`` for each fact of ENVIRONMENT that both know and that differs."""
    both = [name for name in ENVIRONMENT if name in before and name in after]
    return tuple(f"{GPU_NAMES[name]} {before[name]} to {after[name]}" for name in both if before[name] != after[name])
