"""Finds the steps of one case, their positions and intervals; pure.

Columns of the regression (`levels`) are selected stepwise by their gain in likelihood (generalised least squares), then
tested again together and moved. The error is divided among all series and columns (Bonferroni).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from peakgate.compare import noise
from peakgate.compare.history.levels import (
    FARTHEST,
    LEAST_INFORMATION,
    MOST_OUTLIERS,
    SHORTEST,
    CaseSeries,
    StepColumn,
)
from peakgate.compare.judge import SMALLEST_SHIFT
from peakgate.compare.noise import Bools, Floats, Positions

ERROR = 0.01  # nominal probability that a change is found in any unchanged series of a history

PAIR_ERROR = 0.001  # that two are found together of which neither is likely without the other

# NEWEST_SHARE of ERROR goes to steps less than NEWEST sessions ago, SLOW_SHARE to slow changes (weighted Bonferroni:
# Genovese, Roeder and Wasserman 2006).
NEWEST, NEWEST_SHARE, SLOW_SHARE = 10, 0.5, 0.01

# Positions whose chi-square is within this of the best one are not distinguished: the 97th percentile for one degree of
# freedom.
DOUBT = 5.0

MOST_CHANGES = 12
INTERVAL_ERROR = 0.01  # of the 99 % interval of a change

# Iterations of the robust fit, which clips residuals to the case's reach (Huber's winsorised residuals).
ROBUST_STEPS = 4
ALIKE = 1.5  # in a case that alternates between levels, steps up to this factor larger are attributed to that
AWAY = 5.0  # SDs from its level beyond which a case was at another level


class Change(NamedTuple):
    """A change of the log level by ``shift``, with its 99 % interval from ``low`` to ``high``.

    It happened after position ``good`` of the case's sessions and no later than ``bad``; after ``earliest`` and no
    later than ``latest``, if a session beside it may be an outlier.
    """

    column: StepColumn
    shift: float
    low: float
    high: float
    good: int
    bad: int
    earliest: int
    latest: int


@dataclass(frozen=True)
class Levels:
    """A case's changes, oldest first; ``at`` holds the numbers of its sessions.

    ``residuals`` are raw log times less their levels, ``steps`` (n) the sum of the changes so far, ``offset`` the mean
    level of the GPUs before all changes. ``detectable`` is the smallest log shift detectable in the newest sessions.
    """

    case: CaseSeries
    chosen: tuple[int, ...]
    changes: tuple[Change, ...]
    residuals: Floats
    steps: Floats
    offset: float
    sd: float
    detectable: float

    @property
    def at(self) -> Positions:
        return self.case.design.at

    def level(self, position: int) -> float:
        """Mean log level of the GPUs at this position."""
        return self.offset + float(self.steps[position])

    def known_shifts(self, count: int) -> list[float]:
        """The estimated shift at each of ``count`` known changes, also if it was not selected."""
        shifts = {each.column.known: each.shift for each in self.changes if each.column.known is not None}
        given = self.case.given(self.chosen)
        best = int(self.case.log_likelihood(given.squares).argmax())
        for index, column in enumerate(self.case.design.steps):
            if column.known is not None and given.information[0, index] > LEAST_INFORMATION:
                shifts.setdefault(column.known, float(given.left[best, index] / given.information[best, index]))
        return [shifts.get(number, 0.0) for number in range(count)]

    @cached_property
    def apart(self) -> Floats:
        """The residuals from the level of the GPU's other sessions; 0 for its only one."""
        _, group, counts = np.unique(self.case.design.gpus, return_inverse=True, return_counts=True)
        own = counts[group]
        return np.asarray(self.residuals * np.where(own > 1, own / np.maximum(own - 1, 1), 0.0))

    @cached_property
    def earlier_sd(self) -> float:
        """SD of the sessions on one GPU, without the newest ones, in which a step is not yet a change."""
        values, gpus = (each[: 1 - SHORTEST] for each in (self.case.values - self.steps, self.case.design.gpus))
        _, group, counts = np.unique(gpus, return_inverse=True, return_counts=True)
        own = values - (np.bincount(group, values) / counts)[group]
        return max(math.sqrt(float(own @ own) / max(1, len(own) - len(counts))), noise.CASE_SD_FLOOR)

    @cached_property
    def turns(self) -> int:
        """How often the case alternated between levels; ``turns_of`` of unknown machine code."""
        return self.turns_of(np.full(len(self.at), None))

    def turns_of(self, codes: npt.NDArray[np.object_]) -> int:
        """How often the case alternated between levels; ``codes`` is the machine code of each session, None if unknown.

        Also counts excursions of at least three sessions that are too short for a change, and, if there are several,
        sessions at the level of the other side of a step, unless they measured the code of that side.
        """
        cuts = [change for change in self.changes if change.column.is_cut]
        up = [change.shift > 0 for change in cuts]
        turned = sum(before != after for before, after in itertools.pairwise(up)) + bool(up)
        middle = np.median(np.lib.stride_tricks.sliding_window_view(self.residuals, 5), axis=1)
        away = np.abs(middle) > max(AWAY * self.sd, SMALLEST_SHIFT)
        visits = int(np.count_nonzero(away[1:] & ~away[:-1]) - bool(away[-1]))
        usual = max(noise.MAD_TO_SD * float(np.median(np.abs(self.residuals))), noise.CASE_SD_FLOOR)
        beyond, often = 0, False
        starts = [0, *(each.column.start for each in cuts), len(self.residuals)]
        for number, change in enumerate(cuts):
            before = self.residuals[starts[number] : change.good + 1]
            after = -self.residuals[change.bad : starts[number + 2]]
            off = np.concatenate([before, after]) * np.sign(change.shift)
            size = abs(change.shift)
            if isinstance(old := codes[change.good], str) and isinstance(new := codes[change.bad], str) and old != new:
                built = codes[starts[number] : change.good + 1] == new, codes[change.bad : starts[number + 2]] == old
                off[np.concatenate(built)] = 0.0
            there = (off > max(size / 2, FARTHEST * usual)) & (off < ALIKE * size)
            beyond += int(np.count_nonzero(there & (off > FARTHEST * self.sd)))
            often |= bool(np.count_nonzero(there) > max(1, MOST_OUTLIERS * len(off)))  # too many to be outliers
        return turned + 2 * max(visits, beyond > 1 or often)

    @property
    def largest(self) -> float:
        """The largest step of the case, or its largest residual."""
        steps = [abs(each.shift) for each in self.changes if each.column.is_cut]
        return max(steps or [float(np.abs(self.residuals).max())])

    @cached_property
    def is_correlated(self) -> bool:
        """Whether the noise of the case's sessions is not independent."""
        return self.case.is_correlated(self.chosen)

    @cached_property
    def may_drift(self) -> bool:
        """Whether a slow change to slower, until now, would be found if the sessions were known to be independent."""
        design, given = self.case.design, self.case.given(self.chosen)
        last = len(self.case.raw) - 1
        slow = [index for index, each in enumerate(design.steps) if each.is_slow and each.end == last]
        information = np.maximum(given.information[0, slow], LEAST_INFORMATION / 4)
        shift = given.left[0, slow] / information
        df = max(1, design.df - len(self.chosen) - 1)
        squares = np.maximum(given.squares[0] - information * shift**2, noise.CASE_SD_FLOOR**2)
        least = noise.upper_quantile(ERROR / max(1, len(slow)), df) * np.sqrt(squares / df / information)
        return bool((shift > np.maximum(least, SMALLEST_SHIFT)).any())

    def jump(self, newest: int = 0) -> float:
        """The largest difference between successive residuals, except at steps and in the ``newest`` sessions.

        In a correlated case, a step that is no larger is attributed to its changing state.
        """
        jumps = np.abs(np.diff(np.clip(self.residuals, -self.case.reach, self.case.reach)))
        jumps[[each.column.start - 1 for each in self.changes if each.column.is_cut]] = 0.0
        return float(jumps[: len(jumps) - newest].max(initial=0.0))

    def wandered(self, newest: int = 0) -> float:
        """A correlated case's median residual in its last SHORTEST sessions before the ``newest``; else 0."""
        if not self.is_correlated:
            return 0.0
        end = len(self.residuals) - newest
        return float(np.median(self.residuals[max(0, end - SHORTEST) : end]))


def find_steps(case: CaseSeries, series: int, chosen: tuple[int, ...] | None = None, rounds: int = 2) -> Levels:
    """Find the steps of one of ``series`` cases, which share the error; ``chosen``: columns already selected."""
    chosen = _search(case, series) if chosen is None else chosen
    columns = case.design.columns[list(chosen)]
    values = fitted = case.values
    sd = 0.0
    shifts, covariance = np.zeros(0), np.zeros((0, 0))
    for step in range(ROBUST_STEPS if chosen else 1):
        now = case.of(values) if step else case
        given = now.given(chosen)
        best = int(now.log_likelihood(given.squares).argmax())
        squares = case.prior_df * case.prior_variance + max(0.0, float(given.squares[best]))
        sd = max(math.sqrt(squares / max(1.0, case.df - len(chosen))), noise.CASE_SD_FLOOR)
        if chosen:
            covariance = np.linalg.inv(case.design.gram[best][np.ix_(chosen, chosen)])
            shifts = covariance @ now.towards[best, list(chosen)]
        fitted = shifts @ columns + case.of_gpus(values - shifts @ columns)
        values = fitted + np.clip(case.raw - fitted, -case.reach, case.reach)
    if chosen and (left := tuple(_pruned(now, list(chosen), _least(now, series)))) != chosen:
        return find_steps(case, series, left)

    n, residuals = len(values), case.raw - fitted
    places = [_place(case, chosen, shifts, residuals, sd, place=place) for place in range(len(chosen))]
    kept = [not case.design.steps[best].is_cut or SHORTEST <= best + 1 <= n - SHORTEST for best, *_ in places]
    moved = tuple(best for (best, *_), old in zip(places, kept, strict=True) if old)
    informed = (case.given(moved[:place]).information[0, index] for place, index in enumerate(moved))
    if moved != chosen and not all(each > LEAST_INFORMATION / 4 for each in informed):  # together a GPU's level
        moved = tuple(index for index, old in zip(chosen, kept, strict=True) if old)
    if moved != chosen and (rounds or not all(kept)):
        return find_steps(case, series, moved, rounds - 1)

    df = max(1.0, case.df - len(chosen))
    margins = float(noise.upper_quantile(INTERVAL_ERROR / 2, df)) * (sd * np.sqrt(np.diagonal(covariance)))
    changes = [
        Change(case.design.steps[index], float(shift), float(shift - margin), float(shift + margin), *where)
        for index, shift, margin, (_, *where) in zip(chosen, shifts, margins, places, strict=True)
    ]
    steps = shifts @ columns
    newest = [cut - 1 for cut in range(max(1, n - 2 * SHORTEST), n - SHORTEST + 1)]
    information = case.given(chosen).information[best][newest]
    known = float(information[-1] if information[-1] > LEAST_INFORMATION else information.max())
    share = NEWEST_SHARE / (NEWEST - SHORTEST)
    quantile = noise.upper_quantile(ERROR / 2 * share / series, df)
    detectable = float(quantile * sd / np.sqrt(known)) if known > LEAST_INFORMATION else math.inf
    return Levels(case, chosen, tuple(changes), residuals, steps, float(np.mean(fitted - steps)), sd, detectable)


def _search(case: CaseSeries, series: int) -> tuple[int, ...]:
    """Select the columns of a case's changes, in order of position.

    If a ramp is among them, the best selection without ramps is preferred if Schwarz's criterion says so.
    """
    columns = case.design.steps

    def criterion(chosen: Sequence[int]) -> float:
        # parameters: a step has a position and a size, a ramp two positions and a size
        numbers = sum(2 + columns[index].is_slow for index in chosen)
        likely = np.logaddexp.reduce(case.log_likelihood(case.given(chosen).squares))
        return float(likely) - numbers / 2 * math.log(len(case.raw))

    found = _stepwise(case, series, case.design.usable)
    if any(columns[index].is_slow for index in found):
        steps = _stepwise(case, series, case.design.usable & [not each.is_slow for each in columns])
        found = max(found, steps, key=criterion)
    return tuple(sorted(found, key=lambda index: columns[index].start))


def _stepwise(case: CaseSeries, series: int, allowed: Bools) -> list[int]:
    """Forward selection among the allowed columns, followed by pruning."""
    columns = case.design.steps
    chosen: list[int] = []
    least = _least(case, series)
    # the gain whose F test of two steps, which has a closed form, has this p-value
    least_of_pair = math.log(max(1, len(case.design.pairs[0])) * series / PAIR_ERROR)
    while len(chosen) < MOST_CHANGES:
        fine = allowed & _usable(case, chosen)
        given = case.given(chosen)
        scores = np.where(fine, case.scores(given), -np.inf)
        best = int((scores - least).argmax())
        if scores[best] > least[best]:
            # prefer a known change if a cut is not distinguishable from it
            close = np.flatnonzero(fine & (scores > scores[best] - DOUBT / 2)).tolist()
            near = [index for index in close if columns[index].known is not None]
            added = [max(near, key=lambda index: scores[index]) if near and columns[best].is_cut else best]
        elif pair := case.pair(given, fine, least_of_pair):
            added = list(pair)
        else:
            break
        chosen = _refined(case, [*chosen, *added])
    return _pruned(case, chosen, least)


def _usable(case: CaseSeries, chosen: Sequence[int]) -> Bools:
    """Which columns may be added: not chosen yet, and cuts at least SHORTEST from the others."""
    found = case.design.usable.copy()
    found[list(chosen)] = False
    cuts = len(case.raw) - 1
    for index in chosen:
        column = case.design.steps[index]
        if not column.is_slow:
            found[max(0, column.start - SHORTEST) : min(cuts, column.start + SHORTEST - 1)] = False
    return found


def _least(case: CaseSeries, series: int) -> Floats:
    """The threshold of each column's gain in log likelihood."""
    n, columns = len(case.raw), case.design.steps
    slow = np.array([each.is_slow for each in columns])
    newest = np.array([each.is_cut and n - each.start < NEWEST for each in columns])
    found = np.full(len(columns), np.inf)
    for share, among in ((NEWEST_SHARE, newest), (SLOW_SHARE, slow), (1 - NEWEST_SHARE - SLOW_SHARE, ~newest & ~slow)):
        own = among & case.design.usable
        found[among] = case.least_score(ERROR * share / series / max(1, int(own.sum())))
    return found


def _refined(case: CaseSeries, chosen: list[int]) -> list[int]:
    """Move each cut in turn to its most likely position given the others."""
    for _ in range(3 if len(chosen) > 1 else 0):
        moved = False
        for place, index in enumerate(chosen):
            if not case.design.steps[index].is_cut:
                continue
            others = chosen[:place] + chosen[place + 1 :]
            allowed = _usable(case, others)
            allowed[len(case.raw) - 1 :] = False
            scores = np.where(allowed, case.scores(case.given(others)), -1.0)
            best = int(scores.argmax())
            if scores[best] > scores[index] and best != index:
                chosen[place], moved = best, True
        if not moved:
            break
    return chosen


def _pruned(case: CaseSeries, chosen: list[int], least: Floats) -> list[int]:
    """Backward elimination of columns that are not significant given the others, the weakest first."""
    while chosen:
        own = [case.scores(case.given([each for each in chosen if each != index]))[index] for index in chosen]
        over = np.array(own) - least[chosen]
        faintest = int(over.argmin())
        if over[faintest] > 0:
            break
        del chosen[faintest]
    return chosen


def _place(
    case: CaseSeries, chosen: Sequence[int], shifts: Floats, residuals: Floats, sd: float, *, place: int
) -> tuple[int, int, int, int, int]:
    """The best-fitting column in place of a chosen one, and the positions between which its change happened (`Change`).

    A cut is moved to minimize the squared residuals, clipped to `FARTHEST` SDs so that an outlier does not attract it.
    Positions within `DOUBT` of the minimum are not distinguished. Other columns keep their position.
    """
    index, n = chosen[place], len(residuals)
    column = case.design.steps[index]
    if not column.is_cut:
        end = column.end - 1 if column.known is None else column.start
        ends = max(0, column.start - 1), max(column.start, end)
        return index, *ends, *ends
    others = [case.design.steps[each].start for each in chosen if each != index]
    first = max((each + SHORTEST for each in others if each < column.start), default=1)
    last = min((each - SHORTEST for each in others if each > column.start), default=n - 1)
    cuts = np.arange(min(first, column.start), max(last, column.start) + 1)
    own = residuals + shifts[place] * (np.arange(n) >= column.start)
    before, after = (np.minimum(np.abs(each) / sd, FARTHEST) ** 2 for each in (own, own - shifts[place]))
    losses = np.cumsum(np.append(0.0, before))[cuts] + np.cumsum(np.append(0.0, after[::-1]))[::-1][cuts]
    (good, bad), (earliest, latest) = (
        cuts[losses <= losses.min() + doubt][[0, -1]].tolist() for doubt in (DOUBT, FARTHEST**2)
    )
    return int(cuts[losses.argmin()]) - 1, good - 1, bad, earliest - 1, latest
