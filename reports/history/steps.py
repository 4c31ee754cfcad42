"""A single step of a case: where it is among its sessions, and one of the newest sessions alone; pure.

A change point takes five sessions on either side. Until then a case whose newest one to four sessions are slower is
reported if that is either

- **large**: each of them is above the level by 3 %, by eight SDs, and by half as much again as any earlier session of
  the case was; and a surprise of that size came in less than one in a hundred earlier sessions of all cases;
- **steady**: there are three or four, their mean is off by 1.4 % and by more than the noise of one case explains with
  the error that all cases share, and such a run is not what the case's odd sessions explain (`scan.is_chance`).

docs/explanation/change-points.md says how often that is wrong, and how soon a step is seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from peakgate.core.text import counted
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.evidence import NO_COMMIT, SAME_CODE
from peakgate.reports.comparison.noise import Floats, Positions
from peakgate.reports.history import scan
from peakgate.reports.history.series import History, session_name
from peakgate.reports.runs.frame import GPU_NAMES

FARTHEST_SDS = 3.0
"""A session farther off than this counts as this far: one odd session is no step."""

DOUBT = 5.0
"""Positions whose squared misfit, in variances, is this close to the best are not separated; see `plausible`."""

CLOCK_SHIFT = 0.01
"""SM clocks that differ by more than this share are named."""

STEADY_ERROR = 0.004
"""Nominal probability that a steady step is seen in any of the cases of an unchanged session."""

LARGE, LARGE_SDS, LARGE_EARLIER = math.log(1.03), 8.0, 1.5
RARE, NEARLY = 0.01, 0.8
"""Sessions, of all cases, in which one surprised: rarer than this. One that came NEARLY as far off counts."""

STEADY = 3, 4
MOST = scan.SHORTEST - 1


class Place(NamedTuple):
    """A step after the session number ``good`` and not after ``bad``.

    ``between`` counts the sessions of which it is not known on which side they are, ``where`` has all three in words.
    ``facts`` are what changed besides, or that the code did not. ``command`` settles it by measuring the two commits
    alternately; None where two clean commits to measure are not known, or the code is the same, as ``facts`` then say.
    """

    good: int
    bad: int
    between: int
    where: str
    facts: tuple[str, ...]
    command: str | None


def locate(history: History, row: int, numbers: Positions, sd: float, known: int | None = None) -> Place:
    """The step of one case in these of its sessions, all of one GPU, given the SD of one session's log time.

    ``known`` is the position of the first session after it where that is known.
    """
    first, last = plausible(history.log_time[row, numbers], sd) if known is None else (known - 1, known)
    sessions = [history.sessions[number] for number in numbers]
    clean = [not each.dirty and each.commit not in NO_COMMIT for each in sessions]
    good = next((at for at in range(first, -1, -1) if clean[at]), first)
    bad = next((at for at in range(last, len(sessions)) if clean[at]), last)
    before, after = sessions[good], sessions[bad]
    facts = _changes(history, row, int(numbers[good]), int(numbers[bad]))
    command = None
    if not (clean[good] and clean[bad]):
        facts.append("no clean commit on both sides of it")
    elif before.commit == after.commit:
        facts.append("within one commit: environment")
    elif SAME_CODE not in facts:
        command = f"peakgate ab {before.commit[:12]} {after.commit[:12]}"
    between = bad - good - 1
    undecided = f", {counted(between, 'session')} in between undecided" if between else ""
    where = f"after {session_name(before)} and not after {session_name(after)}{undecided}"
    return Place(int(numbers[good]), int(numbers[bad]), between, where, tuple(facts), command)


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


def _changes(history: History, row: int, good: int, bad: int) -> list[str]:
    environment, codes, clocks = history.about
    code, (old_mhz, new_mhz) = codes[row, [good, bad]], clocks[row, [good, bad]]
    facts = []
    if all(code):
        facts.append(SAME_CODE if code[0] == code[1] else "its code changed")
    for name, old in environment[good].items():
        new = environment[bad][name]
        if old is not None and new is not None and old != new:
            facts.append(f"{GPU_NAMES[name]} {old} to {new}")
    if abs(new_mhz / old_mhz - 1) > CLOCK_SHIFT:  # never where one is unknown: NaN
        facts.append(f"SM clock {old_mhz:.0f} to {new_mhz:.0f} MHz")
    return facts


class Newest(NamedTuple):
    """The newest ``sessions`` of a case, how much their mean log time is above the level before them, and it."""

    sessions: int
    log_ratio: float
    level: float


@dataclass(frozen=True, slots=True)
class Surprises:
    """Every session of every case that had a few before it: how far off it was, and the farthest of those before."""

    off: Floats
    farthest_before: Floats

    @staticmethod
    def of(series: Iterable[Floats]) -> Surprises:
        """From how far each session of a case was above its level, oldest first."""
        off, before = [np.empty(0)], [np.empty(0)]
        for each in series:
            off.append(each[scan.SHORTEST :])
            before.append(np.maximum.accumulate(each)[scan.SHORTEST - 1 : -1])
        return Surprises(np.concatenate(off), np.concatenate(before))

    def are_rare(self, size: float, cases: int) -> bool:
        """Whether a case that was never so far off before is so seldom."""
        exposed = self.farthest_before < NEARLY * size
        seen = int((exposed & (self.off >= NEARLY * size)).sum())
        return seen * cases <= RARE * int(exposed.sum())


@dataclass(frozen=True, slots=True)
class Known:
    """What earlier sessions tell: a case's noise, how far each was above its level here and anywhere, all surprises.

    ``off_here`` is of this GPU, ``off_anywhere`` of all; ``cases`` share the error.
    """

    sd: float
    df: float
    off_here: Floats
    off_anywhere: Floats
    surprises: Surprises
    cases: int


def newest_step(before: Floats, newest: Floats, known: Known) -> Newest | None:
    """The step that the last sessions show, the longest run that shows one; None where they show none.

    ``before`` and ``newest`` are log times, oldest first: those of the level, and those that may have left it, of which
    the last one to four are tried.
    """
    if len(before) < scan.SHORTEST:
        return None
    for sessions in range(min(MOST, len(newest)), 0, -1):
        rest = np.concatenate([before, newest[: len(newest) - sessions]])
        level, _, agreeing = scan.level(rest, known.sd)
        off = newest[len(newest) - sessions :] - level
        if is_large(off, known) or is_steady(off, agreeing, known):
            return Newest(sessions, float(off.mean()), level)
    return None


def is_large(off: Floats, known: Known) -> bool:
    """Whether the least of these is more than a case has ever shown."""
    size = float(off.min())
    earlier = LARGE_EARLIER * float(known.off_anywhere.max(initial=0.0))
    return size > max(LARGE, LARGE_SDS * known.sd, earlier) and known.surprises.are_rare(size, known.cases)


def is_steady(off: Floats, agreeing: int, known: Known) -> bool:
    """Whether so many sessions are off a level of ``agreeing`` others by more than noise and odd sessions explain."""
    if len(off) not in STEADY or off.min() <= known.sd:
        return False
    error = known.sd * math.sqrt(1 / len(off) + 1 / max(agreeing, 1))
    limit = error * float(noise.upper_quantile(STEADY_ERROR / len(STEADY) / known.cases, known.df))
    shift = float(off.mean())
    explained: Sequence[Floats] = known.off_here, known.off_anywhere
    if shift <= max(scan.LARGE, limit):
        return False
    return not scan.is_chance(explained, known.sd, shift, len(off), known.cases)
