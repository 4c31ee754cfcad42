"""Where the level of a series of log times changes, in many series at once; pure numbers.

A series is a level for each GPU, noise that may remember (`memory`), and changes: steps after any session, steps that
come with a known change of the environment, and slow ones over many sessions. It is a regression on these columns, and
they are chosen stepwise, by how much likelier the best of them makes the series (generalised least squares; step
indicators: Castle, Doornik, Hendry and Pretis, Detecting location shifts during model selection, 2015; steps and
correlation told apart by the likelihood of both: Shi, Gallagher, Lund and Killick, 2022). So the sessions of a pool are
one series, a border where nothing moved costs nothing, and a case that remembers needs more to show a step.

Variances are moderated over the cases (`noise.squeeze`). A session counts no more than FARTHEST SDs from the median of
its neighbours (Hampel's filter), so a few odd ones make no step. The error is shared over all series and columns
(Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.noise import Bools, Floats, Positions
from peakgate.reports.history import memory
from peakgate.reports.history.memory import Design

ERROR = 0.005
"""Nominal probability that any unchanged series of a history has a change."""

SHORTEST = 5
"""Sessions that a change needs on either side."""

REACH = 4
FARTHEST = 3.5
"""Hampel's filter: the neighbours on either side, and how many SDs from their median a session counts."""

MOST_ODD = 0.1
"""No more of a case's sessions are odd; what more of them do is its noise."""

DOUBT = 5.0
"""Places whose misfit, in variances, is this close to the best are not separated: the 97th percentile of chi-square."""

LEAST_KNOWN = 0.4
"""A column is tried where its coefficient's variance is at most one over this many sessions': GPUs measured once or
twice say little."""

RAMP, RAMP_GRID = 20, 10
"""A slow change takes so many sessions at least; it begins and ends at every so many."""

MOST_CHANGES = 12

SURELY = 0.1
"""Posterior probability below which something is taken as not so."""


class Series(NamedTuple):
    """Log times (case, session) with NaN where a session has none, the GPU of each session and the known changes.

    ``known`` (change, session) is true in the sessions that come after each change of the environment on their GPU.
    """

    values: Floats
    gpus: Positions
    known: Bools


class Column(NamedTuple):
    """What a column stands for: a cut before position ``start``, the ``known`` change, or a ramp to ``end``."""

    start: int
    end: int
    known: int | None = None

    @property
    def is_cut(self) -> bool:
        return self.known is None and self.start == self.end

    @property
    def is_slow(self) -> bool:
        return self.known is None and self.start != self.end


class Pattern(NamedTuple):
    """Sessions that some cases have, and the design of all columns over them.

    ``pairs`` are the first and the second cut of every step that is undone, and each candidate's information on it.
    """

    at: Positions
    columns: tuple[Column, ...]
    design: Design
    usable: Bools
    pairs: tuple[Positions, Positions, Floats]


@dataclass(frozen=True)
class Case:
    """One series: its log times, raw and filtered, and what is believed of its noise beforehand.

    No session counts farther than ``reach`` from its level.

    ``towards`` (candidate, column) and ``squares`` (candidate) are the filtered series' products with the columns and
    with itself, ``double`` (candidate) is the most that a pair of cuts explains of it.
    """

    pattern: Pattern
    raw: Floats
    values: Floats
    reach: float
    towards: Floats
    squares: Floats
    double: Floats
    prior_variance: float
    prior_df: float
    log_weights: Floats

    @property
    def df(self) -> float:
        return self.prior_df + self.pattern.design.df

    def of(self, values: Floats) -> Case:
        """The same with other values in the place of the filtered ones."""
        towards, squares, double = _products(self.pattern, values[None])
        return replace(self, values=values, towards=towards[0], squares=squares[0], double=double[0])

    def log_likelihood(self, squares: Floats) -> Floats:
        """For sums of squares (candidate, ...), with the variance integrated over what is believed of it."""
        shape = (-1,) + (1,) * (squares.ndim - 1)
        constant = (self.pattern.design.constant + self.log_weights).reshape(shape)
        believed = self.prior_df * self.prior_variance + self.df * noise.CASE_SD_FLOOR**2
        return np.asarray(constant - 0.5 * self.df * np.log(believed + np.maximum(squares, 0.0)))

    def given(self, chosen: Sequence[int]) -> Given:
        """What is left to explain when these columns are in the regression."""
        every, gram = list(chosen), self.pattern.design.gram
        rows = gram[:, every]
        solved = np.linalg.solve(rows[:, :, every], rows) if every else rows
        own = self.towards[:, every]
        known = np.diagonal(gram, axis1=1, axis2=2) - np.einsum("mck,mck->mk", rows, solved)
        left = self.towards - np.einsum("mc,mck->mk", own, solved)
        explained = np.linalg.solve(rows[:, :, every], own[..., None])[..., 0] if every else own
        return Given(known, left, self.squares - np.einsum("mc,mc->m", own, explained), rows, solved)

    def scores(self, given: Given) -> Floats:
        """Gain in log likelihood of each column, over all candidates; 0 where it says nothing."""
        informative = given.known > LEAST_KNOWN / 4
        gain = np.where(informative, given.left**2 / np.where(informative, given.known, 1.0), 0.0)
        likely = self.log_likelihood(given.squares[:, None] - gain)
        null = np.logaddexp.reduce(self.log_likelihood(given.squares))
        return np.asarray(np.logaddexp.reduce(likely, axis=0) - null)

    def pulse(self, given: Given, usable: Bools, least: float) -> tuple[int, int] | None:
        """The best pair of cuts with a step at the first that the second undoes, if it gains more than ``least``."""
        first, second, _ = self.pattern.pairs
        fine = usable[first] & usable[second]
        first, second = first[fine], second[fine]
        if not len(first):
            return None
        cross = self.pattern.design.gram[:, first, second]
        cross = cross - np.einsum("mcp,mcp->mp", given.rows[:, :, first], given.solved[:, :, second])
        spread = given.known[:, first] + given.known[:, second] - 2 * cross
        gain = (given.left[:, first] - given.left[:, second]) ** 2 / np.maximum(spread, LEAST_KNOWN / 4)
        null = np.logaddexp.reduce(self.log_likelihood(given.squares))
        if np.logaddexp.reduce(self.log_likelihood(given.squares - gain.max(axis=1))) - null <= least:
            return None
        scores = np.logaddexp.reduce(self.log_likelihood(given.squares[:, None] - gain), axis=0) - null
        best = int(scores.argmax())
        return (int(first[best]), int(second[best])) if scores[best] > least else None

    def most_of_a_pulse(self) -> float:
        """No pair of cuts in the whole series gains more log likelihood."""
        explained = np.logaddexp.reduce(self.log_likelihood(self.squares - self.double))
        return float(explained - np.logaddexp.reduce(self.log_likelihood(self.squares)))

    def remembers(self, chosen: Sequence[int]) -> bool:
        """Whether the noise about these changes is surely not independent."""
        likely = self.log_likelihood(self.given(chosen).squares)
        return bool(np.exp(likely[0] - np.logaddexp.reduce(likely)) < SURELY)

    def least_score(self, probability: float, df: float | None = None) -> float:
        """The gain that a t variable of this two-sided probability stands for."""
        quantile = float(noise.upper_quantile(probability / 2, df or self.df - 1))
        return self.df / 2 * math.log1p(quantile**2 / (self.df - 1))


class Given(NamedTuple):
    """For each candidate: the columns' information and products with what is left, and its sum of squares.

    ``rows`` and ``solved`` carry the chosen columns over to products of two columns.
    """

    known: Floats
    left: Floats
    squares: Floats
    rows: Floats
    solved: Floats


def cases(series: Series) -> list[Case | None]:
    """Every case ready to be searched; None where it has fewer sessions than two levels need."""
    values, (filtered, reach) = series.values, hampel(series.values, series.gpus)
    there = np.isfinite(values)
    groups: dict[bytes, list[int]] = {}
    for row in np.flatnonzero(there.sum(axis=1) >= 2 * SHORTEST - 2):
        groups.setdefault(there[row].tobytes(), []).append(int(row))
    made: dict[int, Case] = {}
    for rows in groups.values():
        own = pattern(np.flatnonzero(there[rows[0]]), series)
        if own.design.df < 2:
            continue
        towards, squares, double = _products(own, filtered[rows][:, own.at])
        for row, *products in zip(rows, towards, squares, double, strict=True):
            made[row] = Case(own, values[row, own.at], filtered[row, own.at], reach[row], *products, 0.0, 0.0, np.zeros(1))
    found: list[Case | None] = [None] * len(values)
    for row, case in zip(made, _moderated(list(made.values())), strict=True):
        found[row] = case
    return found


def _products(pattern: Pattern, values: Floats) -> tuple[Floats, Floats, Floats]:
    """``towards``, ``squares`` and ``double`` of `Case` for each of these series."""
    design, (first, second, spread) = pattern.design, pattern.pairs
    weighted = values @ design.precision  # (candidate, case, session): the precision is symmetric
    towards = weighted @ design.columns.T
    squares = np.einsum("mcn,cn->mc", weighted, values)
    double = np.zeros_like(squares)
    if len(first):
        for candidate, own in enumerate(towards):
            for part in np.array_split(np.arange(len(values)), -(-len(values) // 16)):
                gain = (own[part][:, first] - own[part][:, second]) ** 2 / spread[candidate]
                double[candidate, part] = gain.max(axis=1)
    return np.swapaxes(towards, 0, 1), squares.T, double.T


def _moderated(made: Sequence[Case]) -> Iterator[Case]:
    """The same with variances drawn toward those of their duration, and the candidates' weights."""
    if not made:
        return
    explained = [_best_gain(case) for case in made]
    own_df = np.array([max(case.pattern.design.df - 2.0, 1.0) for case in made])
    left = [case.squares[0] - gain[0] for case, gain in zip(made, explained, strict=True)]
    variance = np.maximum(np.array(left) / own_df, noise.CASE_SD_FLOOR**2)
    typical = np.array([float(np.median(case.raw)) for case in made])
    posterior, df = noise.squeeze(variance, own_df, typical)
    prior_df = df - own_df
    prior = np.maximum((posterior * df - own_df * variance) / np.maximum(prior_df, 1e-9), noise.CASE_SD_FLOOR**2)
    drawn = [
        replace(case, prior_variance=float(each), prior_df=float(degrees))
        for case, each, degrees in zip(made, prior, prior_df, strict=True)
    ]
    likely = []
    for case, gain in zip(drawn, explained, strict=True):
        stepped = case.log_likelihood(case.squares - gain) - math.log(len(case.raw))  # one step, at any place
        likely.append(np.logaddexp(case.log_likelihood(case.squares), stepped))
    weights = memory.log_weights(np.array(likely))
    yield from (replace(case, log_weights=weights) for case in drawn)


def _best_gain(case: Case) -> Floats:
    """The most that one column that may be tried explains, for each candidate."""
    known = np.diagonal(case.pattern.design.gram, axis1=1, axis2=2)[:, case.pattern.usable]
    return np.asarray((case.towards[:, case.pattern.usable] ** 2 / known).max(axis=1, initial=0.0))


def hampel(values: Floats, gpus: Positions) -> tuple[Floats, Floats]:
    """The values with each no farther from the median of its neighbours than its case's reach, and those.

    The levels of the GPUs are taken out for it by median polish.
    """
    variance = np.zeros(len(values))
    offset = np.zeros_like(values)
    middle = np.zeros_like(values)
    for _ in range(3 if len(set(gpus.tolist())) > 1 else 1):
        middle = running_median(values - offset)
        for gpu in set(gpus.tolist()):
            own = gpus == gpu
            offset[:, own] = _nanmedian(values[:, own] - middle[:, own])[:, None]
    if len(set(gpus.tolist())) == 1:
        offset[:] = 0.0
        middle = running_median(values)
    counts = np.isfinite(values).sum(axis=1)
    packed_values = packed(values - offset)
    differences = np.abs(np.diff(packed_values, axis=1))
    sds = noise.MAD_TO_SD * _nanmedian(differences) / math.sqrt(2) * counts / np.maximum(counts - 0.8, 0.2)
    typical = _nanmedian(values)
    known = counts > 2
    if known.any():
        squeezed, _ = noise.squeeze(sds[known] ** 2, np.maximum(0.37 * (counts[known] - 1.0), 0.5), typical[known])
        variance[known] = np.maximum(squeezed, sds[known] ** 2)
    fitted = middle + offset
    there = np.isfinite(values).any(axis=1)
    often = np.zeros(len(values))
    often[there] = np.nanquantile(np.abs(values - fitted)[there], 1 - MOST_ODD, axis=1)
    reach = np.maximum(FARTHEST * np.sqrt(np.maximum(variance, noise.CASE_SD_FLOOR**2)), often)[:, None]
    return fitted + np.clip(values - fitted, -reach, reach), reach[:, 0]


def packed(values: Floats) -> Floats:
    """Each row's values moved to the front, NaN after them."""
    order = np.argsort(~np.isfinite(values), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(values, order, axis=1))


def running_median(values: Floats) -> Floats:
    """The median of each value and its REACH neighbours on either side, among those that are there."""
    order = np.argsort(~np.isfinite(values), axis=1, kind="stable")
    front = np.pad(np.take_along_axis(values, order, axis=1), ((0, 0), (REACH, REACH)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(front, 2 * REACH + 1, axis=1)
    middle = _nanmedian(windows.reshape(-1, 2 * REACH + 1)).reshape(values.shape)
    found = np.full_like(values, np.nan)
    np.put_along_axis(found, order, middle, axis=1)
    return found


def _nanmedian(values: Floats) -> Floats:
    """The median of each row; 0 of none."""
    if not values.shape[1]:
        return np.zeros(len(values))
    counts = np.isfinite(values).sum(axis=1)
    ordered = np.sort(values, axis=1)  # NaN last
    low = np.take_along_axis(ordered, np.maximum((counts - 1) // 2, 0)[:, None], axis=1)[:, 0]
    high = np.take_along_axis(ordered, np.minimum(counts // 2, values.shape[1] - 1)[:, None], axis=1)[:, 0]
    return np.where(counts > 0, (low + high) / 2, 0.0)


def pattern(at: Positions, series: Series) -> Pattern:
    """All columns over these sessions: cuts, known changes, ramps; which of them may be tried."""
    n = len(at)
    place = np.arange(n)
    named = [Column(cut, cut) for cut in range(1, n)]
    rows = [(place >= cut).astype(float) for cut in range(1, n)]
    for number, known in enumerate(series.known[:, at]):
        named.append(Column(int(known.argmax()), int(n - 1 - (~known)[::-1].argmax()) + 1, number))
        rows.append(known.astype(float))
    grid = [*range(0, n - RAMP_GRID, RAMP_GRID), n - 1]
    for start in grid:
        for end in grid:
            if end - start >= RAMP:
                named.append(Column(start, end))
                rows.append(np.clip((place - start) / (end - start), 0.0, 1.0))
    columns = np.array(rows)
    made = memory.design(series.gpus[at], columns, pooled=len(set(series.gpus.tolist())) > 1)
    after = np.where(columns >= 1, 1, 0).sum(axis=1)
    before = np.where(columns <= 0, 1, 0).sum(axis=1)
    is_ramp = np.array([each.is_slow for each in named])
    enough = is_ramp | (np.minimum(after, before) >= SHORTEST)
    informative = np.diagonal(made.gram[0]) > LEAST_KNOWN
    usable = enough & informative
    return Pattern(at, tuple(named), made, usable, _pairs(made, np.flatnonzero(usable[: n - 1])))


def _pairs(made: Design, cuts: Positions) -> tuple[Positions, Positions, Floats]:
    first, second = (cuts[each] for each in np.triu_indices(len(cuts), 1))
    far = second - first >= SHORTEST
    first, second = first[far], second[far]
    known = np.diagonal(made.gram, axis1=1, axis2=2)
    spread = known[:, first] + known[:, second] - 2 * made.gram[:, first, second]
    fine = spread[0] > LEAST_KNOWN
    return first[fine], second[fine], spread[:, fine]


def usable(case: Case, chosen: Sequence[int]) -> Bools:
    """Which columns may be added to the chosen ones: cuts far enough from the others, nothing twice."""
    found = case.pattern.usable.copy()
    found[list(chosen)] = False
    cuts = len(case.pattern.at) - 1
    for index in chosen:
        column = case.pattern.columns[index]
        if column.is_cut or column.known is not None:
            near = slice(max(0, column.start - SHORTEST), min(cuts, column.start + SHORTEST - 1))
            found[near] = False
    return found


def search(case: Case, series: int) -> tuple[int, ...]:
    """The columns of a case that are changes, in the order of their places; the error is shared by so many series.

    Where one is slow, steps alone are preferred if they explain as much for what they need (Schwarz's criterion).
    """
    columns = case.pattern.columns
    found = _stepwise(case, series, case.pattern.usable)
    if any(columns[index].is_slow for index in found):
        steps = _stepwise(case, series, case.pattern.usable & [not each.is_slow for each in columns])
        found = max(found, steps, key=lambda chosen: _criterion(case, chosen))
    return tuple(sorted(found, key=lambda index: columns[index].start))


def _criterion(case: Case, chosen: Sequence[int]) -> float:
    """Schwarz's: a step has a place and a size, a slow change two places."""
    numbers = sum(2 + case.pattern.columns[index].is_slow for index in chosen)
    likely = np.logaddexp.reduce(case.log_likelihood(case.given(chosen).squares))
    return float(likely) - numbers / 2 * math.log(len(case.raw))


def _stepwise(case: Case, series: int, allowed: Bools) -> list[int]:
    """The columns among the allowed that are chosen one after the other, the best first, and stay."""
    columns = case.pattern.columns
    chosen: list[int] = []
    tried = max(1, int(case.pattern.usable.sum()))
    single = case.least_score(ERROR / series / tried)
    double = case.least_score(ERROR / series / tried / max(1, tried / 2))
    while len(chosen) < MOST_CHANGES:
        fine = allowed & usable(case, chosen)
        given = case.given(chosen)
        scores = np.where(fine, case.scores(given), 0.0)
        best = int(scores.argmax())
        if not chosen and scores[best] <= single and case.most_of_a_pulse() <= double:
            break
        if scores[best] > single:
            # a known change explains a step as well as a cut that is no better than the place of one
            near = [i for i in np.flatnonzero(fine & (scores > scores[best] - DOUBT / 2)) if columns[i].known is not None]
            added = [max(near, key=lambda index: scores[index]) if near and columns[best].is_cut else best]
        elif pair := case.pulse(given, fine, double):
            added = list(pair)
        else:
            break
        chosen = _refined(case, [*chosen, *added])
    return _pruned(case, chosen, single)


def confirmed(case: Case, chosen: Sequence[int], series: int) -> tuple[int, ...]:
    """Those of the chosen columns that are changes of these values too."""
    tried = max(1, int(case.pattern.usable.sum()))
    return tuple(sorted(_pruned(case, list(chosen), case.least_score(ERROR / series / tried)), key=chosen.index))


def _refined(case: Case, chosen: list[int]) -> list[int]:
    """The same with each cut moved to where the series is likeliest, the others staying."""
    for _ in range(3 if len(chosen) > 1 else 0):
        moved = False
        for place, index in enumerate(chosen):
            if not case.pattern.columns[index].is_cut:
                continue
            others = chosen[:place] + chosen[place + 1 :]
            allowed = usable(case, others)
            allowed[len(case.pattern.at) - 1 :] = False
            scores = np.where(allowed, case.scores(case.given(others)), -1.0)
            best = int(scores.argmax())
            if scores[best] > scores[index] and best != index:
                chosen[place], moved = best, True
        if not moved:
            break
    return chosen


def _pruned(case: Case, chosen: list[int], least: float) -> list[int]:
    """The same without those that the others make superfluous, the faintest first."""
    while chosen:
        own = [case.scores(case.given([each for each in chosen if each != index]))[index] for index in chosen]
        faintest = int(np.argmin(own))
        if own[faintest] > least:
            break
        del chosen[faintest]
    return chosen
