"""Resamples sessions of unchanged code into the two sides of a comparison; pure.

Each resample is judged by ``compare`` in both directions. Everything flagged is a false positive; the smallest shift
that would have been flagged is what this runner can detect. A floor or threshold is too tight if the spread between
this runner's sessions violates it by chance.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

from peakgate.base.verdict import Verdict
from peakgate.compare import noise
from peakgate.compare.judge import compare
from peakgate.judge.floors import Floors
from peakgate.runfile.frame import is_library, is_of_host, is_usable, to_frame
from peakgate.runfile.saved import Run

FEWEST_SESSIONS = 5  # one per side, and three to estimate the spread between sessions

MOST_RESAMPLES = 45  # all pairs of ten sessions; of more sessions, a random sample of pairs (seeded)

CONFIDENCE = 0.95

# A limit this many SDs away is crossed by chance in one of several hundred sessions.
SDS = 3.0


class SessionLayout(StrEnum):
    """How sessions are assigned to the two sides of a comparison."""

    SINGLE = "one session against one"
    WITH_HISTORY = "one session against one, the others saved"
    HALVES = "half of the sessions against the other half"


@dataclass(frozen=True, slots=True)
class DesignResult:
    """Results of one design on unchanged code.

    ``flagged`` of the ``gates`` were false positives. ``at_most`` is the upper 95 % confidence bound of the
    false-positive rate; since resamples share sessions, it counts only as many gates as there are disjoint pairs of
    sessions, and is None with one such pair. ``flagged_cases`` and ``flagged_sessions`` (by number) count the false
    positives that they were in. ``detectable_percent`` is, by case, the smallest change that the median resample would
    have flagged.
    """

    design: SessionLayout
    gates: int
    flagged: int
    at_most: float | None
    flagged_cases: Mapping[str, int]
    flagged_sessions: Mapping[int, int]
    detectable_percent: Mapping[str, float]

    @property
    def rate(self) -> float:
        return self.flagged / self.gates


def measure(design: SessionLayout, runs: Sequence[Run], seed: int = 0) -> DesignResult:
    """Judge unchanged sessions of one runner in this design; ``runs`` has at least FEWEST_SESSIONS."""
    gates = flagged = 0
    cases: Counter[str] = Counter()
    sessions: Counter[int] = Counter()
    detectable: list[pd.DataFrame] = []
    rows = to_frame(runs)
    number = pd.factorize(rows["run"])[0]
    for base, new in _sides(design, len(runs), np.random.default_rng(seed)):
        history = rows if design is SessionLayout.WITH_HISTORY else None  # a side's own runs do not count again
        comparison = compare(rows[np.isin(number, base)], rows[np.isin(number, new)], history)
        detectable.append(comparison[["case", "smallest_detectable_change_percent"]].dropna())
        for verdict, both in ((Verdict.SLOWER, (*base, *new)), (Verdict.FASTER, (*new, *base))):
            slower, suite = _called(comparison, verdict)
            gates += 1
            if slower or suite:
                flagged += 1
                cases.update(slower)
                sessions.update(both)
    apart = 1 if design is SessionLayout.HALVES else len(runs) // 2
    medians = pd.concat(detectable).groupby("case")["smallest_detectable_change_percent"].median()
    return DesignResult(
        design=design,
        gates=gates,
        flagged=flagged,
        at_most=rate_at_most(flagged / gates, apart) if apart > 1 else None,
        flagged_cases=dict(cases.most_common()),
        flagged_sessions=dict(sessions.most_common()),
        detectable_percent={str(case): float(percent) for case, percent in medians.items()},
    )


def rate_at_most(rate: float, independent: int) -> float:
    """The upper confidence bound of a rate observed in ``independent`` trials (Clopper and Pearson)."""
    seen = rate * independent
    return 1.0 if seen >= independent else float(special.betaincinv(seen + 1, independent - seen, CONFIDENCE))


def _sides(
    design: SessionLayout, sessions: int, random: np.random.Generator
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The session numbers of both sides, each division once regardless of direction."""
    if design is SessionLayout.HALVES:
        half = sessions // 2
        divided = set()
        for _ in range(MOST_RESAMPLES):
            drawn = random.permutation(sessions).tolist()
            first, second = sorted((tuple(sorted(drawn[:half])), tuple(sorted(drawn[half : 2 * half]))))
            divided.add((first, second))
        yield from sorted(divided)
        return
    pairs = list(itertools.combinations(range(sessions), 2))
    for chosen in sorted(random.permutation(len(pairs))[:MOST_RESAMPLES].tolist()):
        yield (pairs[chosen][0],), (pairs[chosen][1],)


def _called(comparison: pd.DataFrame, verdict: Verdict) -> tuple[tuple[str, ...], bool]:
    """Cases flagged SLOWER or FASTER (slower with the sides exchanged), and whether the suite was."""
    flagged, suite = comparison["verdict"] == verdict, comparison.attrs["suite"]
    if verdict is Verdict.FASTER:  # BELOW_FLOOR takes precedence over it
        beyond = -comparison["change_percent"] > comparison["smallest_detectable_change_percent"]
        flagged |= (comparison["verdict"] == Verdict.BELOW_FLOOR) & beyond
    return tuple(comparison.loc[flagged, "case"]), suite is not None and suite["verdict"] == verdict


def session_sds(runs: Sequence[Run]) -> Mapping[str, float]:
    """SD of the log median between sessions, of each case that at least two of them timed.

    The larger of the case's own SD and the moderated (empirical-Bayes) one.
    """
    timed = _timed(runs).groupby("case")["log_time"].agg(["var", "mean", "size"])
    own, mean, df = (timed[name].to_numpy(np.float64) for name in ("var", "mean", "size"))
    moderated, _ = noise.squeeze(own, df - 1, mean)
    return dict(zip(timed.index, np.sqrt(np.maximum(own, moderated)).tolist(), strict=True))


def tight_floors(runs: Sequence[Run], sds: Mapping[str, float], floors: Floors) -> pd.DataFrame:
    """The floors less than three SDs below the median session, which unchanged code violates by chance, tightest first.

    ``carried`` is the highest floor that holds reliably.
    """
    timed = _timed(runs)
    timed["floor"] = timed["case"].map(floors.get).astype("float64")
    timed["below"] = timed["peak_fraction"] < timed["floor"]
    by_case = timed.groupby("case", as_index=False)
    found = by_case.agg(floor=("floor", "first"), median=("peak_fraction", "median"), sessions_below=("below", "sum"))
    found.insert(3, "carried", found["median"] * (1 - SDS * found["case"].map(sds)))
    found["room"] = found["carried"] - found["floor"]
    return found[found["room"] < 0].sort_values("room", kind="stable").drop(columns="room")


def tight_thresholds(runs: Sequence[Run], sds: Mapping[str, float]) -> pd.DataFrame:
    """The cases whose sessions vary by more than the threshold of one run against one other, worst first.

    ``carried_percent`` is three SDs of the difference of two sessions.
    """
    timed = _timed(runs)
    by_case = timed.assign(sampling_error=timed["sampling_error"].fillna(0.0)).groupby("case")
    errors, library = math.sqrt(2) * by_case["sampling_error"].median(), by_case["library"].any()
    time_us = np.exp(by_case["log_time"].mean())
    threshold = noise.fixed_resolvable(time_us.to_numpy(), errors.to_numpy(), 2.0, library.to_numpy())
    carried = SDS * math.sqrt(2) * time_us.index.map(sds).to_numpy(np.float64)
    percents = {"threshold_percent": 100 * np.expm1(threshold), "carried_percent": 100 * np.expm1(carried)}
    found: pd.DataFrame = pd.DataFrame({"case": time_us.index, **percents})[carried > threshold]
    return found.sort_values("carried_percent", ascending=False, kind="stable")


def _timed(runs: Sequence[Run]) -> pd.DataFrame:
    """The usable rows of cases that at least two sessions timed on the GPU, with ``log_time`` and ``library``."""
    rows = to_frame(runs)
    rows = rows[is_usable(rows) & ~is_of_host(rows)]
    rows = rows.assign(log_time=np.log(rows["time_us"]), library=is_library(rows))
    return rows[rows.groupby("case")["case"].transform("size") > 1]
