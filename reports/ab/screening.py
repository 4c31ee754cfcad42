"""Which cases need further screening pairs; pure.

Most cases show after a few pairs that a change as large as what is looked for is not there, and a kernel twice as slow
needs no ten pairs to be a suspect. What is settled is not screened any further; every suspect is still decided on fresh
pairs alone (``decide``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from peakgate.reports.ab.decide import RULED_OUT_P, SMALLEST_SHIFT, TO_BE_FOUND, Estimate, estimates, suspects
from peakgate.reports.comparison.noise import Floats

LOOKS = (4, 6)
"""After so many screening pairs the cases are looked at; even numbers, so that both orders count alike."""

EARLY_LOOK = 2
"""Two pairs rule nothing out: what moves all cases of a process alike has the same sign twice in half of all runs. They
are enough where every changed case moved by GROSS_SHIFT and the sentinels, which that would move too, stayed."""

GROSS_SHIFT = math.log1p(0.03)

PLAIN_P = 1e-4
"""A case beyond SMALLEST_SHIFT at this unadjusted p is a suspect without further pairs."""


def next_look(done: int, planned: int, *, early: bool = False) -> int:
    """How many pairs there are to be at the next look, ``early`` also after EARLY_LOOK; the planned ones at most."""
    looks = (EARLY_LOOK, *LOOKS) if early else LOOKS
    return next((look for look in looks if done < look < planned), planned)


def all_gross(screen: Floats, log_time: Floats, sentinels: Sequence[bool]) -> bool:
    """Whether every case (row) but the sentinels moved far in every pair, and no sentinel did; there must be both.

    No p-value is asked for: two pairs give it one degree of freedom, and fresh pairs decide.
    """
    watched = np.array(sentinels, bool)
    others, suspected = screen[~watched], suspects(estimates(screen, log_time))
    if not watched.any() or watched.all() or not suspected.keys() >= set(np.flatnonzero(~watched)):
        return False
    moved = (others > GROSS_SHIFT).all(axis=1) | (others < -GROSS_SHIFT).all(axis=1)
    stayed = np.abs(screen[watched].mean(axis=1)) < GROSS_SHIFT / 2
    return bool(moved.all() and stayed.all())


def unsettled(screen: Floats, log_time: Floats) -> list[int]:
    """The cases (rows) that need further pairs after these (columns of log ratios, NaN where not measured)."""
    found = estimates(screen, log_time)
    suspected = suspects(found)
    return [
        row
        for row, estimate in enumerate(found)
        if estimate is None or not (_plain(estimate) or (row not in suspected and _ruled_out(estimate)))
    ]


def _plain(estimate: Estimate) -> bool:
    direction = 1 if estimate.shift > 0 else -1
    return abs(estimate.shift) > SMALLEST_SHIFT and estimate.p_value(direction) < PLAIN_P


def _ruled_out(estimate: Estimate) -> bool:
    return abs(estimate.shift) + estimate.half_width(RULED_OUT_P) < TO_BE_FOUND
