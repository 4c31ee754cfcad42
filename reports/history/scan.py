"""Where the level of a series of log times changes, in many series at once; pure numbers.

A series is cut into segments by least squares with a price for each cut (optimal partitioning: Jackson et al., An
algorithm for optimal partitioning of data on an interval, 2005). These cuts are only proposals. Each is then tested:
how much better two levels fit than one, under a loss that no single session can exceed (Fearnhead and Rigaill,
Changepoint detection in the presence of outliers, 2019), so that a few odd sessions make no step. The critical value
is that of the largest of all two-sample t statistics along a series: Siegmund's approximation (James, James and
Siegmund, Tests for a change-point, 1987), averaged over how far the estimated SD may be from the true one.

The error is shared out over all series and all cuts, so that an unchanged history is seldom cut (README.md). Most of
it is spent on the newest sessions, where a step has had the fewest sessions to show.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.noise import Floats
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

ERROR = 0.008
"""Nominal probability that any unchanged series is cut, were LARGE zero. LARGE lowers it, odd sessions add to it:
README.md has what it is in synthetic histories."""

SHORTEST = 5
"""Sessions that a segment needs, and that must agree with its level."""

FEWEST_AT_LEVEL = 4
"""Of the newest segment, which may hold an odd session before it grows, so many."""

NEWEST_AFTER_CUT = 6
NEWEST_SHARE = 0.95
"""Cuts with at most NEWEST_AFTER_CUT sessions after them have this share of the error."""

LARGE = 0.014
"""So large must a shift of the newest sessions be to be tested at their share; a smaller one can wait for more of them.
It spends the error where a 2 % step is hardest to find: in noisy cases."""

PROPOSED = 4.0
"""A cut is proposed where its t statistic is this large, far below what it must reach."""

FARTHEST = 3.5
"""In SDs: a session farther from its level counts as this far."""

REACH = 4
ALIKE = 2
ALIKE_WITHIN = 3.0
"""An odd session has fewer than ALIKE among REACH neighbours on either side within so many SDs; no cut is proposed for
its sake."""

EVERY_START, COARSE = 128, 8
"""Of segments longer than EVERY_START only every COARSE-th beginning is tried, which suffices to propose one."""

MOST_STARTS = 12

Segments = tuple[tuple[int, int], ...]
"""(first, end) of each segment, in order and without a gap."""


def first_variance(values: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Variance and degrees of freedom from the median difference between neighbours, which steps do not widen."""
    if values.shape[1] < 2:
        return np.zeros(len(values)), np.zeros(len(values))
    differences = np.where(counts[:, None] > 1, np.abs(np.diff(values)), 0.0)
    middle = np.nanmedian(differences, axis=1)
    sds = noise.MAD_TO_SD * middle / np.sqrt(2) * counts / (counts - 0.8)
    return sds**2, np.maximum(0.25 * (counts - 1), 0.0)


LAG = 6
_CORRELATIONS = np.linspace(0.0, 0.95, 96)
_NEAR_TO_FAR = np.sqrt((1 - _CORRELATIONS) / (1 - _CORRELATIONS**LAG))


def correlation(blocks: Sequence[Floats]) -> float:
    """Correlation of a session's noise with the next one's, of all series together; 0 where none is seen.

    Of noise whose correlation falls by this factor a session (AR(1)), neighbours differ less than sessions LAG apart:
    by sqrt((1 - r) / (1 - r^LAG)). Medians over all series, in units of each one's own, are not moved by steps.
    """
    farther = [np.empty(0)]
    for values in blocks:
        near, far = np.abs(np.diff(values)), np.abs(values[:, LAG:] - values[:, :-LAG])
        if not far.size:
            continue
        unit = np.nanmedian(np.where(np.isfinite(near).any(axis=1, keepdims=True), near, 0.0), axis=1)
        farther.append((far[unit > 0] / unit[unit > 0, None]).ravel())
    known = np.concatenate(farther)
    known = known[np.isfinite(known)]
    if not (known.size and np.median(known)):
        return 0.0
    return float(np.interp(-1 / np.median(known), -_NEAR_TO_FAR, _CORRELATIONS))


def packed(log_time: Floats) -> tuple[Floats, Floats]:
    """Each row's values moved to the front, NaN after them, and how many there are; no column without any value."""
    counts = np.isfinite(log_time).sum(axis=1)
    order = np.argsort(~np.isfinite(log_time), kind="stable")
    values: Floats = np.take_along_axis(log_time, order, axis=1)[:, : int(counts.max(initial=1))]
    return values, counts.astype(float)


def odd(values: Floats, sd: Floats) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Which sessions agree with too few of their neighbours."""
    alike = np.zeros(values.shape, dtype=np.int64)
    for distance in range(1, min(REACH + 1, values.shape[1])):
        near = np.abs(values[:, distance:] - values[:, :-distance]) <= ALIKE_WITHIN * sd[:, None]
        alike[:, distance:] += near
        alike[:, :-distance] += near
    return np.asarray(alike < ALIKE)


def propose(values: Floats, sd: Floats) -> list[Segments]:
    """Segments of each row of packed values that explain it at the price of PROPOSED squared a cut."""
    rows, columns = values.shape
    there: NDArray[np.bool_] = np.asarray(np.isfinite(values))
    kept = ~odd(values, sd)  # what is missing is like no other
    scaled = np.where(kept, (values - values[:, :1]) / sd[:, None], 0.0)  # small numbers; cuts are the same about any
    # Session by row, so that one step of the recursion works on whole rows of memory.
    sums = np.vstack([np.zeros(rows), np.cumsum(scaled.T, axis=0)])
    counts = np.vstack([np.zeros(rows), np.cumsum(kept.T, axis=0)])
    best = np.full_like(sums, -np.inf)
    best[0] = 0.0
    back = np.zeros(sums.shape, dtype=np.intp)
    every = np.arange(rows)
    for end in range(SHORTEST, columns + 1):
        far = max(0, end - EVERY_START) // COARSE * COARSE
        starts = np.concatenate([np.arange(0, far, COARSE), np.arange(far, end - SHORTEST + 1)])
        count = counts[end] - counts[starts]
        gain = (sums[end] - sums[starts]) ** 2 / np.maximum(count, FEWEST_AT_LEVEL) + best[starts]
        gain[count < FEWEST_AT_LEVEL] = -np.inf
        chosen = gain.argmax(axis=0)
        back[end] = starts[chosen]
        best[end] = gain[chosen, every] - PROPOSED**2
    ends = there.sum(axis=1)
    return [_traced(back[:, row], int(ends[row])) for row in every]


def _traced(back: np.ndarray[tuple[int], np.dtype[np.intp]], end: int) -> Segments:
    found = [(int(back[end]), end)]
    while cut := found[-1][0]:
        found.append((int(back[cut]), cut))
    return tuple(reversed(found))


def level(values: Floats, sd: float) -> tuple[float, float, int]:
    """The level that fits best under the bounded loss, that loss in variances, and how many sessions agree with it."""
    ranks = np.linspace(0, len(values) - 1, min(len(values), MOST_STARTS)).round().astype(np.intp)
    levels: Floats = np.sort(values)[ranks]
    for _ in range(4):
        near = np.abs(values - levels[:, None]) < FARTHEST * sd  # never none: a level is a value, then a mean
        levels = (values * near).sum(axis=1) / near.sum(axis=1)
    far = np.abs(values - levels[:, None]) / sd
    losses = np.sum(np.minimum(far, FARTHEST) ** 2, axis=1)
    chosen = int(losses.argmin())
    return float(levels[chosen]), float(losses[chosen]), int((far[chosen] < FARTHEST).sum())


def residuals(values: Floats, segments: Sequence[Segments], sd: Floats) -> tuple[Floats, Floats]:
    """Sums of the squares about the segments' levels, and their degrees of freedom, without sessions far from theirs.

    One of each per row of packed values.
    """
    there = np.isfinite(values)
    totals, df = np.zeros(len(values)), np.zeros(len(values))
    whole = np.flatnonzero((np.array([len(each) for each in segments]) == 1) & there.any(axis=1))
    parts, far = values[whole], FARTHEST * sd[whole, None]
    middle = np.nanmedian(parts, axis=1, keepdims=True)
    near = np.abs(parts - middle) < far
    for _ in range(3):
        middle = np.nansum(parts * near, axis=1, keepdims=True) / np.maximum(near.sum(axis=1, keepdims=True), 1)
        near = np.abs(parts - middle) < far
    totals[whole] = np.nansum(((parts - middle) * near) ** 2, axis=1)
    df[whole] = np.maximum(near.sum(axis=1) - 1.0, 0.0)
    for row in np.flatnonzero(np.array([len(each) for each in segments]) > 1).tolist():
        for first, end in segments[row]:
            part = values[row, first:end]
            own = np.abs(part - level(part, float(sd[row]))[0])
            kept = own[own < FARTHEST * sd[row]]
            totals[row] += float(np.sum(kept**2))
            df[row] += max(0.0, len(kept) - 1.0)
    return totals, df


def tested(values: Floats, segments: Segments, sd: float, newest: float, older: float) -> Segments:
    """The segments that are left when every cut below its critical value has been taken out, the faintest first.

    Each cut is first moved to where two levels fit best: an odd session beside a step pulls the proposed one to itself.
    ``newest`` and ``older`` are the critical t values of a cut near the end and of any other.
    """
    kept = list(segments)

    @cache
    def fit(first: int, end: int) -> tuple[float, float, int]:
        return level(values[first:end], sd)

    def best_cut(first: int, cut: int, end: int) -> int:
        near = range(max(first + SHORTEST, cut - REACH), min(end - SHORTEST, cut + REACH) + 1)
        return min(near, key=lambda each: (fit(first, each)[1] + fit(each, end)[1], abs(each - cut)))

    while len(kept) > 1:
        for index in range(len(kept) - 1):
            (first, cut), (_, end) = kept[index : index + 2]
            moved = best_cut(first, cut, end)
            kept[index : index + 2] = [(first, moved), (moved, end)]
        strengths = []
        for (first, cut), (_, end) in itertools.pairwise(kept):
            before, after = fit(first, cut), fit(cut, end)
            recent = end == len(values) and end - cut <= NEWEST_AFTER_CUT
            agree = before[2] >= SHORTEST and after[2] >= (FEWEST_AT_LEVEL if recent else SHORTEST)
            gain = fit(first, end)[1] - before[1] - after[1] if agree else 0.0
            large = abs(after[0] - before[0]) >= LARGE
            critical = newest if recent and large else older
            strengths.append(gain / critical**2)
        faintest = int(np.argmin(strengths))
        if strengths[faintest] > 1:
            break
        kept[faintest : faintest + 2] = [(kept[faintest][0], kept[faintest + 1][1])]
    return tuple(kept)


def detectable(sessions: int, sd: float, newest: float, older: float) -> float:
    """The smallest shift of the newest SHORTEST of so many sessions that passes `tested`; infinite where too few."""
    if sessions < 2 * SHORTEST:
        return math.inf
    error = sd * math.sqrt(1 / SHORTEST + 1 / (sessions - SHORTEST))
    return min(max(LARGE, newest * error), older * error)


def newest_moved(values: Floats, sd: float, critical: float) -> bool:
    """Whether two levels, the newest sessions apart, fit better than one by this critical t value."""
    cuts = range(len(values) - NEWEST_AFTER_CUT, len(values) - SHORTEST + 1)
    losses = [level(values[:cut], sd)[1] + level(values[cut:], sd)[1] for cut in cuts]
    return level(values, sd)[1] - min(losses) > critical**2


DEGREES = np.array([2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 40.0, 60.0, 100.0, 300.0, 1000.0])
NORMAL = np.geomspace(0.3, 40.0, 500)
STUDENT = np.geomspace(2.0, 200.0, 150)
"""Values of the statistic with the true SD and with the estimated one, for the average over their ratio.

Statistics under about 1 are cut off, or have too low a probability by the approximation: critical values are up to 3 %
too low at 2 degrees of freedom, 0.5 % at 3, 0.04 % at 5 and more."""


def critical(series: int, sessions: int, df: Floats) -> tuple[Floats, Floats]:
    """The t values that cuts near the end and older ones must exceed, for each of the degrees of freedom.

    ``series`` share the error; each has at most ``sessions``.
    """
    both = []
    cuts = range(SHORTEST, sessions - SHORTEST + 1)
    for share, near in ((NEWEST_SHARE, True), (1 - NEWEST_SHARE, False)):
        chosen = tuple(cut for cut in cuts if (sessions - cut <= NEWEST_AFTER_CUT) == near)
        values = _critical(ERROR * share / series, sessions, chosen)
        both.append(np.interp(np.log(np.maximum(df, DEGREES[0])), np.log(DEGREES), values))
    return both[0], both[1]


@lru_cache(maxsize=4096)
def _critical(probability: float, sessions: int, cuts: Sequence[int]) -> Floats:
    """The value that the largest t statistic of these cuts exceeds with this probability, for each of DEGREES."""
    if not cuts:
        return np.full(len(DEGREES), np.inf)
    crossed = _crossed(NORMAL, np.array(cuts, dtype=float), sessions)
    ratio = (NORMAL / STUDENT[:, None]) ** 2
    found = []
    for df in DEGREES.tolist():
        # The estimated variance over the true one is chi-square over its degrees of freedom; per step of log NORMAL.
        log_density = df / 2 * (np.log(df / 2) + np.log(ratio) - ratio) - special.gammaln(df / 2)
        weights = 2 * np.exp(log_density) * np.log(NORMAL[1] / NORMAL[0])
        above = np.maximum(weights @ crossed, np.finfo(float).tiny)
        found.append(float(np.exp(np.interp(-np.log(probability), -np.log(above), np.log(STUDENT)))))
    return np.array(found)


def _crossed(bounds: Floats, cuts: Floats, sessions: int) -> Floats:
    """Probability that the largest of the cuts' two-sided z statistics exceeds each bound, known variance."""
    rates = sessions / (cuts * (sessions - cuts))
    steps = bounds[:, None] * np.sqrt(rates) / 2
    density = np.exp(-(steps**2) / 2) / np.sqrt(2 * np.pi)
    overshoot = (special.ndtr(steps) - 0.5) / steps / (steps * special.ndtr(steps) + density)
    normal = bounds * np.exp(-(bounds**2) / 2) / np.sqrt(2 * np.pi)
    probability: Floats = np.minimum(1.0, normal * np.sum(overshoot * rates, axis=1))
    return probability


PRIOR = 0.5, 30.0
"""Visits and other sessions that are counted beforehand: about one session in sixty is odd."""

MOST_PROBABLE = 0.003
"""Largest chance of such a run in any of the series at which it still counts as a step."""


MIXED = 3


def visits(towards: Floats, sd: float, shift: float) -> int:
    """Sessions off their level, towards the other one, by at least half the shift and more than the noise explains."""
    return int((towards >= max(abs(shift) / 2, ALIKE_WITHIN * sd)).sum())


def chance(run: int, visited: int, sessions: int) -> float:
    """Probability of ``run`` visits in a row where ``visited`` of ``sessions`` others were (beta-binomial)."""
    there, elsewhere = PRIOR[0] + visited, PRIOR[1] + sessions - visited
    return float(np.exp(special.betaln(there + run, elsewhere) - special.betaln(there, elsewhere)))


def is_mixture(before: Floats, after: Floats, sd: float, shift: float, places: int) -> bool:
    """Whether a case that is at either of two levels in any session may well show such a cut in one of so many places.

    ``before`` and ``after`` are how far sessions are off their own level towards the other one. Only where at least
    MIXED visit that. The chance is that of a hypergeometric draw: so many of the sessions at the second level come
    after the cut, were all of them in random order.
    """
    early, back = visits(before, sd, shift), visits(after, sd, shift)
    if early + back < MIXED:
        return False
    total, late = len(before) + len(after), len(after) - back
    there = early + late
    drawn = np.arange(late, len(after) + 1)  # no way for more than there are
    ways = special.comb(there, drawn) * special.comb(total - there, len(after) - drawn)
    return places * float(ways.sum() / special.comb(total, len(after))) > MOST_PROBABLE


def is_chance(known: Sequence[Floats], sd: float, shift: float, run: int, places: int) -> bool:
    """Whether one of so many places could well show a run of sessions at the other level.

    Each of ``known`` is how far sessions are off their levels towards the other one (those on one GPU, say, and those
    on all), of which the highest rate counts. ``run`` are the sessions on the shorter side.
    """
    worst = max(chance(run, visits(each, sd, shift), len(each)) for each in known)
    return places * worst > MOST_PROBABLE
