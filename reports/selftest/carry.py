"""Whether floors and thresholds ask for more steadiness than sessions on this runner have; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from peakgate.judge.floors import Floors
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.evidence import Measured, gather
from peakgate.reports.runs.runfile import Run

SDS = 3.0
"""A limit this many SDs of a session away is crossed by chance in one session of several hundred."""


@dataclass(frozen=True, slots=True)
class TightFloor:
    """A floor less than three SDs under the median session; ``carried`` is the highest that it passes reliably."""

    case: str
    floor: float
    median: float
    carried: float
    sessions_below: int


@dataclass(frozen=True, slots=True)
class TightThreshold:
    """A case whose sessions differ more than one run against one other is trusted to resolve, in percent.

    ``carried_percent`` is three SDs of the difference of two sessions.
    """

    case: str
    threshold_percent: float
    carried_percent: float


def session_sds(runs: Sequence[Run]) -> Mapping[str, float]:
    """SD of the log median between sessions of each case that two or more of them timed.

    The larger of the case's own and the moderated (empirical-Bayes) one.
    """
    timed = _timed(runs)
    logs = [np.log([result.time_us for result in measured.results]) for measured in timed.values()]
    own = np.array([values.var(ddof=1) for values in logs])
    df = np.array([len(values) - 1.0 for values in logs])
    moderated, _ = noise.squeeze(own, df, np.array([values.mean() for values in logs]))
    return dict(zip(timed, np.sqrt(np.maximum(own, moderated)).tolist(), strict=True))


def tight_floors(runs: Sequence[Run], sds: Mapping[str, float], floors: Floors) -> tuple[TightFloor, ...]:
    """The floors in force that unchanged code on this runner will break by chance, the tightest first."""
    found = []
    for case, measured in _timed(runs).items():
        floor = floors.get(case)
        fractions = [result.peak_fraction for result in measured.results if result.peak_fraction is not None]
        if floor is None or not fractions:
            continue
        median = float(np.median(fractions))
        carried = median * (1 - SDS * sds[case])
        if floor > carried:
            below = sum(fraction < floor for fraction in fractions)
            found.append(TightFloor(case, floor, median, carried, below))
    return tuple(sorted(found, key=lambda tight: (tight.carried - tight.floor, tight.case)))


def tight_thresholds(runs: Sequence[Run], sds: Mapping[str, float]) -> tuple[TightThreshold, ...]:
    """The cases that one run against one other claims to resolve better than this runner repeats, worst first."""
    found = []
    for case, measured in _timed(runs).items():
        errors = [result.sampling_error or 0.0 for result in measured.results]
        library = any(result.library for result in measured.results)
        threshold = noise.fixed_resolvable(measured.time_us, math.sqrt(2) * float(np.median(errors)), library=library)
        carried = SDS * math.sqrt(2) * sds[case]
        if carried > threshold:
            found.append(TightThreshold(case, 100 * math.expm1(threshold), 100 * math.expm1(carried)))
    return tuple(sorted(found, key=lambda tight: (-tight.carried_percent, tight.case)))


def _timed(runs: Sequence[Run]) -> dict[str, Measured]:
    return {each.case: each.base for each in gather(runs, ()) if len(each.base.results) > 1}
