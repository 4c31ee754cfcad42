"""Where the level of a series of log times changes, in many series at once; pure numbers.

A series is a level for each GPU, noise that may remember (`memory`), and changes: steps after any session, steps that
come with a known change of the environment, and slow ones over many sessions. It is a regression on these columns, and
they are chosen stepwise, by how much likelier the best of them makes the series (generalised least squares; step
indicators: Castle, Doornik, Hendry and Pretis, Detecting location shifts during model selection, 2015; steps and
correlation separated by the likelihood of both: Shi, Gallagher, Lund and Killick, 2022). So the sessions of a pool are
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
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

from peakgate.compare import noise
from peakgate.compare.history import memory
from peakgate.compare.history.columns import LEAST_KNOWN, SHORTEST, Pattern, Series, pattern
from peakgate.compare.history.hampel import MOST_ODD, hampel
from peakgate.compare.noise import Bools, Floats

TRIMMED_SQUARE = 0.623
"""Mean of the lowest nine tenths of the squares of a normal variable."""

SURELY = 0.1
"""Posterior probability below which something is taken as not so."""


@dataclass(frozen=True)
class CaseSeries:
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

    def of_gpus(self, values: Floats) -> Floats:
        """The mean of these values on each session's GPU."""
        _, group = np.unique(self.pattern.design.gpus, return_inverse=True)
        return np.asarray((np.bincount(group, values) / np.bincount(group))[group])

    def of(self, values: Floats) -> CaseSeries:
        """The same with other values in the place of the filtered ones."""
        towards, squares, double = _products(self.pattern, values[None])
        return replace(self, values=values, towards=towards[0], squares=squares[0], double=double[0])

    def log_likelihood(self, squares: Floats) -> Floats:
        """For sums of squares (candidate, ...), with the variance integrated over what is believed of it.

        No sum is less than that of independent noise of CASE_SD_FLOOR: what is quieter is taken for that.
        """
        shape = (-1,) + (1,) * (squares.ndim - 1)
        constant = (self.pattern.design.constant + self.log_weights).reshape(shape)
        least = (noise.CASE_SD_FLOOR**2 * self.pattern.design.independent).reshape(shape)
        believed = self.prior_df * self.prior_variance + np.maximum(squares, least)
        return np.asarray(constant - 0.5 * self.df * np.log(believed))

    def given(self, chosen: Sequence[int]) -> Unexplained:
        """What is left to explain when these columns are in the regression."""
        every, gram = list(chosen), self.pattern.design.gram
        rows = gram[:, every]
        solved = np.asarray(np.linalg.solve(rows[:, :, every], rows) if every else rows, dtype=np.float64)
        own = self.towards[:, every]
        known = np.diagonal(gram, axis1=1, axis2=2) - np.einsum("mck,mck->mk", rows, solved)
        left = self.towards - np.einsum("mc,mck->mk", own, solved)
        explained = np.linalg.solve(rows[:, :, every], own[..., None])[..., 0] if every else own
        return Unexplained(known, left, self.squares - np.einsum("mc,mc->m", own, explained), rows, solved)

    def scores(self, given: Unexplained) -> Floats:
        """Gain in log likelihood of each column, over all candidates; 0 where it says nothing."""
        informative = given.known > LEAST_KNOWN / 4
        gain = np.where(informative, given.left**2 / np.where(informative, given.known, 1.0), 0.0)
        likely = self.log_likelihood(given.squares[:, None] - gain)
        null = np.logaddexp.reduce(self.log_likelihood(given.squares))
        return np.asarray(np.logaddexp.reduce(likely, axis=0) - null)

    def pulse(self, given: Unexplained, usable: Bools, least: float) -> tuple[int, int] | None:
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


class Unexplained(NamedTuple):
    """For each candidate: the columns' information and products with what is left, and its sum of squares.

    ``rows`` and ``solved`` carry the chosen columns over to products of two columns.
    """

    known: Floats
    left: Floats
    squares: Floats
    rows: Floats
    solved: Floats


def cases(series: Series) -> list[CaseSeries | None]:
    """Every case ready to be searched; None where it has fewer sessions than two levels need."""
    values, (filtered, reach) = series.values, hampel(series.values, series.gpus)
    there = np.isfinite(values)
    groups: dict[bytes, list[int]] = {}
    for row in np.flatnonzero(there.sum(axis=1) >= 2 * SHORTEST - 2).tolist():
        groups.setdefault(there[row].tobytes(), []).append(row)
    made: dict[int, CaseSeries] = {}
    for rows in groups.values():
        own = pattern(np.flatnonzero(there[rows[0]]), series)
        if own.design.df < 2:
            continue
        products = _products(own, filtered[rows][:, own.at])
        for row, towards, squares, double in zip(rows, *products, strict=True):
            series_of = values[row, own.at], filtered[row, own.at], float(reach[row])
            made[row] = CaseSeries(own, *series_of, towards, squares, double, 0.0, 0.0, np.zeros(1))
    moderated = dict(zip(made, _moderated(list(made.values())), strict=True))
    return [moderated.get(row) for row in range(len(values))]


def _products(pattern: Pattern, values: Floats) -> tuple[Floats, Floats, Floats]:
    """``towards``, ``squares`` and ``double`` of `CaseSeries` for each of these series."""
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


def _moderated(made: Sequence[CaseSeries]) -> Iterator[CaseSeries]:
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
    # A case that is noisier than its kind is no draw from it (Phipson et al., Robust hyperparameter estimation, 2016).
    fine = prior_df > 0
    alone = np.array([_successive(case) for case in made])
    alike = special.fdtrc(own_df[fine] / 2, prior_df[fine], alone[fine] / prior[fine])
    prior_df[fine] *= np.minimum(1.0, 2 * alike)
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


def _successive(case: CaseSeries) -> float:
    """Variance by the differences between sessions and the next, the largest tenth apart, which steps are among."""
    off = case.values - case.of_gpus(case.values)
    squares = np.sort(np.diff(off) ** 2)
    kept = squares[: max(1, int((1 - MOST_ODD) * len(squares)))]
    return float(kept.mean() / 2 / TRIMMED_SQUARE)


def _best_gain(case: CaseSeries) -> Floats:
    """The most that one column that may be tried explains, for each candidate."""
    known = np.diagonal(case.pattern.design.gram, axis1=1, axis2=2)[:, case.pattern.usable]
    return np.asarray((case.towards[:, case.pattern.usable] ** 2 / known).max(axis=1, initial=0.0))
