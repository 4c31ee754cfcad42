"""Steps of the newest sessions that are too few to be a change point, and too far off to be noise; pure.

A change point takes five sessions on either side. Until then a case whose newest one to four sessions are slower is
reported if that is either

- **large**: each of them is above the level by 3 %, by eight SDs, and by half as much again as any earlier session of
  the case was; and a surprise of that size came in less than one in a hundred earlier sessions of all cases;
- **steady**: there are three or four, their mean is off by 1.4 % and by more than the noise of one case explains with
  the error that all cases share, and such a run is not what the case's odd sessions explain (`scan.is_chance`).

README.md says how often that is wrong, and how soon a step is seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.history import scan

STEADY_ERROR = 0.004
"""Nominal probability that a steady step is seen in any of the cases of an unchanged session."""

LARGE, LARGE_SDS, LARGE_EARLIER = math.log(1.03), 8.0, 1.5
RARE, NEARLY = 0.01, 0.8
"""Sessions, of all cases, in which one surprised: rarer than this. One that came NEARLY as far off counts."""

STEADY = 3, 4
MOST = scan.SHORTEST - 1


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
