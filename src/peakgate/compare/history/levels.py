"""Models the levels and the noise of many series of log times: outliers, regression columns, likelihood; pure.

A series is modelled by regression: a level per GPU, correlated noise, and columns for changes of the level: a step
after any session, a step at a known change of the environment, and a ramp over many sessions (step indicators: Castle,
Doornik, Hendry and Pretis, Detecting location shifts during model selection, 2015). So the sessions of all GPUs form
one series, and a change of GPU or environment that moves nothing does not split it.

The noise of a case is normal, with one variance and one of CANDIDATES as the correlation of its sessions; a correlated
case needs more evidence for a step (Shi, Gallagher, Lund and Killick, 2022). One short series cannot identify its
candidate, so the candidates' mixing weights are estimated by maximum likelihood over all cases (empirical Bayes: Kiefer
and Wolfowitz 1956; Efron, Large-scale inference, 2010, chapter 1); a case's own data still identify it if it is
correlated and others are not. Variances are moderated across cases (`noise.squeeze`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

from peakgate.compare import noise
from peakgate.compare.noise import Bools, Floats, Positions

REACH = 4  # Hampel's filter (1974): neighbours on either side; sessions are clipped to FARTHEST SDs from their median
FARTHEST = 3.0
MOST_OUTLIERS = 0.1  # largest share of a case's sessions treated as outliers; more are its noise
SHORTEST = 5  # sessions that a change needs on either side

# A column may be tried if its coefficient's variance is at most 1 / LEAST_INFORMATION of a session's: GPUs measured
# once or twice say little.
LEAST_INFORMATION = 0.4
RAMP, RAMP_GRID = 20, 10  # a ramp spans at least RAMP sessions; its ends lie on multiples of RAMP_GRID

# (correlation of adjacent sessions by AR(1), share of the variance that is correlated); the rest is independent. The
# last two model a slowly wandering level with independent noise.
CANDIDATES = ((0.0, 0.0), (0.3, 1.0), (0.6, 1.0), (0.8, 1.0), (0.9, 1.0), (0.95, 1.0), (0.95, 0.5), (0.98, 0.8))

# Pseudo-cases of the prior on the weights, half of them independent; they dominate if there are one or two cases.
PRIOR_CASES = 1.0
EM_STEPS = 30
TRIMMED_SQUARE = 0.623  # mean of the lowest nine tenths of squared standard normal values
SURELY = 0.1  # posterior probability below which a hypothesis is rejected


def hampel(values: Floats, gpus: Positions) -> tuple[Floats, Floats]:
    """The values clipped to ``reach`` around the running median, and the reach of each case.

    The levels of the GPUs are removed first, by median polish.
    """
    offset = gpu_levels(values, gpus)
    fitted = running_median(values - offset) + offset
    counts = np.isfinite(values).sum(axis=1)
    differences = successive(values - offset)
    variance = (noise.MAD_TO_SD * differences / math.sqrt(2) * counts / np.maximum(counts - 0.8, 0.2)) ** 2
    known = counts > 2
    if known.any():
        df = np.maximum(noise.MAD_EFFICIENCY * (counts[known] - 1.0), 0.5)
        squeezed, _ = noise.squeeze(variance[known], df, row_medians(values)[known])
        variance[known] = np.maximum(squeezed, variance[known])
    variance[~known] = 0.0
    there = counts > 0
    often = np.zeros(len(values))
    often[there] = np.nanquantile(np.abs(values - fitted)[there], 1 - MOST_OUTLIERS, axis=1)
    reach = np.maximum(FARTHEST * np.sqrt(np.maximum(variance, noise.CASE_SD_FLOOR**2)), often)
    return fitted + np.clip(values - fitted, -reach[:, None], reach[:, None]), reach


def gpu_levels(values: Floats, gpus: Positions) -> Floats:
    """Each session's GPU level relative to the running median of all GPUs, by median polish; 0 with one GPU.

    The newest sessions do not count where a GPU has earlier ones: a step in them would be taken for its level.
    """
    offset = np.zeros_like(values)
    several = set(gpus.tolist())
    number = np.arange(len(gpus))
    for _ in range(3 if len(several) > 1 else 0):
        middle = running_median(values - offset)
        for gpu in several:
            own = gpus == gpu
            off = values[:, own] - middle[:, own]
            earlier = np.where(number[own] > len(gpus) - SHORTEST, np.nan, off)
            known = np.isfinite(earlier).any(axis=1, keepdims=True)
            offset[:, own] = row_medians(np.where(known, earlier, off))[:, None]
    return offset


def running_median(values: Floats) -> Floats:
    """The median of each value and its REACH finite neighbours on either side."""
    order = np.argsort(~np.isfinite(values), axis=1, kind="stable")
    front = np.pad(np.take_along_axis(values, order, axis=1), ((0, 0), (REACH, REACH)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(front, 2 * REACH + 1, axis=1)
    middle = row_medians(windows.reshape(-1, 2 * REACH + 1)).reshape(values.shape)
    found = np.full_like(values, np.nan)
    np.put_along_axis(found, order, middle, axis=1)
    return found


def successive(values: Floats) -> Floats:
    """The median absolute difference between successive finite values of each row."""
    order = np.argsort(~np.isfinite(values), axis=1, kind="stable")
    return row_medians(np.abs(np.diff(np.take_along_axis(values, order, axis=1), axis=1)))


def row_medians(values: Floats) -> Floats:
    """The median of each row's finite values; 0 without any."""
    if not values.shape[1]:
        return np.zeros(len(values))
    counts = np.isfinite(values).sum(axis=1)
    ordered = np.sort(values, axis=1)  # NaN last
    low = np.take_along_axis(ordered, np.maximum((counts - 1) // 2, 0)[:, None], axis=1)[:, 0]
    high = np.take_along_axis(ordered, np.minimum(counts // 2, values.shape[1] - 1)[:, None], axis=1)[:, 0]
    return np.where(counts > 0, (low + high) / 2, 0.0)


class Series(NamedTuple):
    """Log times (case, session), NaN if missing, the GPU of each session, and the known changes.

    ``known`` (change, session) is True for the sessions after each change of the environment on their GPU.
    """

    values: Floats
    gpus: Positions
    known: Bools


class StepColumn(NamedTuple):
    """The meaning of a column: a cut before position ``start``, the ``known`` change, or a ramp to ``end``."""

    start: int
    end: int
    known: int | None = None

    @property
    def is_cut(self) -> bool:
        return self.known is None and self.start == self.end

    @property
    def is_slow(self) -> bool:
        return self.known is None and self.start != self.end


class Design(NamedTuple):
    """The regression on the n sessions ``at``, which some cases share, for each of the m candidates.

    ``columns`` (k, n) are the values of ``steps``; only ``usable`` ones may be tried. ``pairs`` holds the first and
    second cut of every pair that may be tried. ``precision`` (m, n, n) is the inverse of the correlation
    matrix, projected to remove the GPUs' levels; ``gram`` (m, k, k) is columns x precision x columns'; ``constant`` (m)
    is the constant part of the restricted log likelihood; ``independent`` (m) is the expected sum of squares of
    independent noise of variance 1. ``df`` are the degrees of freedom left by the levels.
    """

    at: Positions
    gpus: Positions
    steps: tuple[StepColumn, ...]
    columns: Floats
    usable: Bools
    pairs: tuple[Positions, Positions]
    precision: Floats
    gram: Floats
    constant: Floats
    independent: Floats
    df: int


def correlations(gpus: Positions, *, pooled: bool) -> Floats:
    """Each candidate's correlation matrix of sessions on these GPUs; ``pooled`` adds those correlated per GPU only.

    Both occur: bimodal times belong to the process, a slow state to the GPU.
    """
    n = len(gpus)
    apart = [np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)]
    if pooled:
        own = np.zeros(n)
        for gpu in set(gpus.tolist()):
            own[gpus == gpu] = np.arange(np.count_nonzero(gpus == gpu))
        apart.append(np.where(gpus[:, None] == gpus, np.abs(np.subtract.outer(own, own)), np.inf))
    found = [
        (1 - share) * np.eye(n) + share * correlation**distance
        for distance in apart
        for correlation, share in CANDIDATES[0 if distance is apart[0] else 1 :]
    ]
    return np.array(found)


def design(at: Positions, series: Series) -> Design:
    """The regression over these sessions, with all cuts, known changes and ramps."""
    n, gpus = len(at), series.gpus[at]
    place = np.arange(n)
    steps = [StepColumn(cut, cut) for cut in range(1, n)]
    rows = [(place >= cut).astype(float) for cut in range(1, n)]
    for number, known in enumerate(series.known[:, at]):
        steps.append(StepColumn(int(known.argmax()), int(n - 1 - (~known)[::-1].argmax()) + 1, number))
        rows.append(known.astype(float))
    grid = [*range(0, n - RAMP_GRID, RAMP_GRID), n - 1]
    for start in grid:
        for end in grid:
            if end - start >= RAMP:
                steps.append(StepColumn(start, end))
                rows.append(np.clip((place - start) / (end - start), 0.0, 1.0))
    columns = np.array(rows)

    matrices = correlations(gpus, pooled=len(set(series.gpus.tolist())) > 1)
    inverse = np.linalg.inv(matrices)
    levels = (gpus[:, None] == np.unique(gpus)).astype(float)
    towards = levels.T @ inverse
    between = towards @ levels
    precision = inverse - np.swapaxes(towards, 1, 2) @ np.linalg.solve(between, towards)
    gram = columns @ precision @ columns.T
    constant = -0.5 * (np.linalg.slogdet(matrices)[1] + np.linalg.slogdet(between)[1])
    independent = np.trace(precision, axis1=1, axis2=2)

    late = (columns >= 1) @ levels.astype(np.intp)  # the sessions of each GPU after each step
    own = np.diagonal(gram[0])
    seen = _on_its_smaller_side(late, gpus)
    usable = (np.array([each.is_slow for each in steps]) | (seen >= SHORTEST)) & (own > LEAST_INFORMATION)

    cuts = np.flatnonzero(usable[: n - 1])
    first, second = (cuts[each] for each in np.triu_indices(len(cuts), 1))
    fine = _on_its_smaller_side(late[first] - late[second], gpus) >= SHORTEST
    fine &= (
        np.minimum(own[first], own[second]) - gram[0, first, second] ** 2 / np.maximum(own[first], own[second])
        > LEAST_INFORMATION
    )
    pairs = first[fine], second[fine]
    df = n - levels.shape[1]
    return Design(at, gpus, tuple(steps), columns, usable, pairs, precision, gram, constant, independent, df)


def _on_its_smaller_side(counts: Positions, gpus: Positions) -> Positions:
    """The sessions on the smaller side of each change, counting only GPUs that measured both sides.

    ``counts`` (change, GPU) are those of each GPU on one side.
    """
    others = np.unique(gpus, return_counts=True)[1] - counts
    both = (counts > 0) & (others > 0)
    return np.asarray(np.minimum((counts * both).sum(axis=1), (others * both).sum(axis=1)))


class Unexplained(NamedTuple):
    """Per candidate: the columns' information, their products with the residual, and its sum of squares.

    ``rows`` and ``solved`` adjust products of two columns for the chosen ones.
    """

    information: Floats
    left: Floats
    squares: Floats
    rows: Floats
    solved: Floats


@dataclass(frozen=True)
class CaseSeries:
    """One series: its log times, raw and filtered, and the prior of its noise.

    Sessions are clipped to ``reach`` around their level. ``towards`` (candidate, column) and ``squares`` (candidate)
    are the filtered series' products with the columns and with itself.
    """

    design: Design
    raw: Floats
    values: Floats
    reach: float
    towards: Floats
    squares: Floats
    prior_variance: float
    prior_df: float
    log_weights: Floats

    @property
    def df(self) -> float:
        return self.prior_df + self.design.df

    def of_gpus(self, values: Floats) -> Floats:
        """For each session, the mean of these values over its GPU."""
        _, group = np.unique(self.design.gpus, return_inverse=True)
        return np.asarray((np.bincount(group, values) / np.bincount(group))[group])

    def of(self, values: Floats) -> CaseSeries:
        """A copy with these values in place of the filtered ones."""
        towards, squares = _products(self.design, values[None])
        return replace(self, values=values, towards=towards[0], squares=squares[0])

    def log_likelihood(self, squares: Floats) -> Floats:
        """Marginal log likelihood of sums of squares (candidate, ...), integrated over the variance's prior.

        Sums are at least those of independent noise with SD CASE_SD_FLOOR.
        """
        shape = (-1,) + (1,) * (squares.ndim - 1)
        constant = (self.design.constant + self.log_weights).reshape(shape)
        least = (noise.CASE_SD_FLOOR**2 * self.design.independent).reshape(shape)
        believed = self.prior_df * self.prior_variance + np.maximum(squares, least)
        return np.asarray(constant - 0.5 * self.df * np.log(believed))

    def given(self, chosen: Sequence[int]) -> Unexplained:
        """What these columns leave unexplained."""
        every, gram = list(chosen), self.design.gram
        rows = gram[:, every]
        solved = np.asarray(np.linalg.solve(rows[:, :, every], rows) if every else rows, dtype=np.float64)
        own = self.towards[:, every]
        information = np.diagonal(gram, axis1=1, axis2=2) - np.einsum("mck,mck->mk", rows, solved)
        left = self.towards - np.einsum("mc,mck->mk", own, solved)
        explained = np.linalg.solve(rows[:, :, every], own[..., None])[..., 0] if every else own
        squares = self.squares - np.einsum("mc,mc->m", own, explained)
        return Unexplained(information, left, squares, rows, solved)

    def scores(self, given: Unexplained) -> Floats:
        """Gain in log likelihood of each column, over all candidates; 0 without information."""
        informative = given.information > LEAST_INFORMATION / 4
        gain = np.where(informative, given.left**2 / np.where(informative, given.information, 1.0), 0.0)
        likely = self.log_likelihood(given.squares[:, None] - gain)
        null = np.logaddexp.reduce(self.log_likelihood(given.squares))
        return np.asarray(np.logaddexp.reduce(likely, axis=0) - null)

    def pair(self, given: Unexplained, usable: Bools, least: float) -> tuple[int, int] | None:
        """The best pair of cuts, with a step of any size at each, if its gain exceeds ``least``.

        Either step of a staircase, or of one that is undone, may be no likelier alone than correlated noise.
        """
        first, second = self.design.pairs
        fine = usable[first] & usable[second]
        first, second = first[fine], second[fine]
        if not len(first):
            return None
        informed = np.maximum(given.information, LEAST_INFORMATION / 4)
        cross = self.design.gram[:, first, second]
        cross = cross - np.einsum("mcp,mcp->mp", given.rows[:, :, first], given.solved[:, :, second])
        slope = cross / informed[:, first]
        information = np.maximum(informed[:, second] - slope * cross, LEAST_INFORMATION / 4)
        gain = given.left[:, first] ** 2 / informed[:, first]
        gain += (given.left[:, second] - slope * given.left[:, first]) ** 2 / information
        null = np.logaddexp.reduce(self.log_likelihood(given.squares))
        if np.logaddexp.reduce(self.log_likelihood(given.squares - gain.max(axis=1))) - null <= least:
            return None
        scores = np.logaddexp.reduce(self.log_likelihood(given.squares[:, None] - gain), axis=0) - null
        best = int(scores.argmax())
        return (int(first[best]), int(second[best])) if scores[best] > least else None

    def is_correlated(self, chosen: Sequence[int]) -> bool:
        """Whether the posterior probability of independent noise, given these changes, is below SURELY."""
        likely = self.log_likelihood(self.given(chosen).squares)
        return bool(np.exp(likely[0] - np.logaddexp.reduce(likely)) < SURELY)

    def least_score(self, probability: float, df: float | None = None) -> float:
        """The gain in log likelihood that corresponds to this two-sided p-value of a t statistic."""
        quantile = float(noise.upper_quantile(probability / 2, df or self.df - 1))
        return self.df / 2 * math.log1p(quantile**2 / (self.df - 1))


def case_series(series: Series) -> list[CaseSeries | None]:
    """Prepare every case; None for a case with fewer sessions than two levels need."""
    values, (filtered, reach) = series.values, hampel(series.values, series.gpus)
    there = np.isfinite(values)
    groups: dict[bytes, list[int]] = {}
    for row in np.flatnonzero(there.sum(axis=1) >= 2 * SHORTEST - 2).tolist():
        groups.setdefault(there[row].tobytes(), []).append(row)
    made: dict[int, CaseSeries] = {}
    for rows in groups.values():
        own = design(np.flatnonzero(there[rows[0]]), series)
        if own.df < 2:
            continue
        for row, towards, squares in zip(rows, *_products(own, filtered[rows][:, own.at]), strict=True):
            kept = values[row, own.at], filtered[row, own.at], float(reach[row])
            made[row] = CaseSeries(own, *kept, towards, squares, 0.0, 0.0, np.zeros(1))
    moderated = dict(zip(made, _moderated(list(made.values())), strict=True)) if made else {}
    return [moderated.get(row) for row in range(len(values))]


def _products(design: Design, values: Floats) -> tuple[Floats, Floats]:
    """``towards`` and ``squares`` of `CaseSeries` for each of these series."""
    weighted = values @ design.precision  # (candidate, case, session): the precision is symmetric
    squares = np.einsum("mcn,cn->mc", weighted, values)
    return np.swapaxes(weighted @ design.columns.T, 0, 1), squares.T


def _moderated(made: Sequence[CaseSeries]) -> list[CaseSeries]:
    """The cases with moderated variances and the candidates' weights."""
    explained = []  # the largest sum of squares that one usable column explains, per candidate
    successive_variance = []  # from successive differences, without the largest, which include steps
    for case in made:
        information = np.diagonal(case.design.gram, axis1=1, axis2=2)[:, case.design.usable]
        explained.append((case.towards[:, case.design.usable] ** 2 / information).max(axis=1, initial=0.0))
        squares = np.sort(np.diff(case.values - case.of_gpus(case.values)) ** 2)
        kept = squares[: max(1, int((1 - MOST_OUTLIERS) * len(squares)))]
        successive_variance.append(float(kept.mean() / 2 / TRIMMED_SQUARE))
    own_df = np.array([max(case.design.df - 2.0, 1.0) for case in made])
    left = [case.squares[0] - gain[0] for case, gain in zip(made, explained, strict=True)]
    variance = np.maximum(np.array(left) / own_df, noise.CASE_SD_FLOOR**2)
    typical = np.array([float(np.median(case.raw)) for case in made])
    posterior, df = noise.squeeze(variance, own_df, typical)
    prior_df = df - own_df
    prior = np.maximum((posterior * df - own_df * variance) / np.maximum(prior_df, 1e-9), noise.CASE_SD_FLOOR**2)
    # A case much noisier than the others of its duration gets fewer prior df (Phipson et al., Robust hyperparameter
    # estimation, 2016).
    fine = prior_df > 0
    alike = special.fdtrc(own_df[fine] / 2, prior_df[fine], np.array(successive_variance)[fine] / prior[fine])
    prior_df[fine] *= np.minimum(1.0, 2 * alike)
    drawn = [
        replace(case, prior_variance=float(each), prior_df=float(degrees))
        for case, each, degrees in zip(made, prior, prior_df, strict=True)
    ]
    likely = []
    for case, gain in zip(drawn, explained, strict=True):
        stepped = case.log_likelihood(case.squares - gain) - math.log(len(case.raw))  # one step, at any position
        likely.append(np.logaddexp(case.log_likelihood(case.squares), stepped))
    weights = log_weights(np.array(likely))
    return [replace(case, log_weights=weights) for case in drawn]


def log_weights(log_likelihood: Floats) -> Floats:
    """Logarithms of the candidates' weights, from each case's log likelihood under each (case, candidate)."""
    count = log_likelihood.shape[1]
    prior = np.full(count, 0.5 / (count - 1))
    prior[0] = 0.5
    weights = prior
    for _ in range(EM_STEPS):
        posterior = special.softmax(log_likelihood + np.log(weights), axis=1)
        weights = (PRIOR_CASES * prior + posterior.sum(axis=0)) / (PRIOR_CASES + len(log_likelihood))
    return np.asarray(np.log(weights), dtype=np.float64)
