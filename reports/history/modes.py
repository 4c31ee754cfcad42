"""Whether a run of sessions at another level is a step, or chance in a case that has two levels; pure numbers.

Some kernels are fast in one process and slow in the next, by where their memory was placed: each session is at one of
two levels. Runs of sessions at one of them look like steps, with hardly any noise about them. What separates them is
that such a case visits its other level in single sessions too. Their rate is estimated from all sessions of the case,
on this GPU and on every one, and a run counts as a step only where one so long would be improbable at that rate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.history.scan import ALIKE_WITHIN
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

PRIOR = 0.5, 30.0
"""Visits and other sessions that are counted beforehand: about one session in sixty is odd."""

MOST_PROBABLE = 0.003
"""A step whose run any of the series would show with this probability is none."""


def visits(towards: Floats, sd: float, shift: float) -> int:
    """Sessions off their level, towards the other one, by at least half the shift and more than the noise explains."""
    return int((towards >= max(abs(shift) / 2, ALIKE_WITHIN * sd)).sum())


def chance(run: int, visited: int, sessions: int) -> float:
    """Probability of ``run`` visits in a row where ``visited`` of ``sessions`` others were (beta-binomial)."""
    there, elsewhere = PRIOR[0] + visited, PRIOR[1] + sessions - visited
    return float(np.exp(special.betaln(there + run, elsewhere) - special.betaln(there, elsewhere)))


def is_chance(known: Sequence[Floats], sd: float, shift: float, run: int, places: int) -> bool:
    """Whether one of so many places could well show a run of sessions at the other level.

    Each of ``known`` is how far sessions are off their levels towards the other one (those on one GPU, say, and those
    on all), of which the highest rate counts. ``run`` are the sessions on the shorter side.
    """
    worst = max(chance(run, visits(each, sd, shift), len(each)) for each in known)
    return places * worst > MOST_PROBABLE
