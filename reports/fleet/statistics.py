"""Which GPUs, nodes and racks are slow: frames in, frames out, nothing else.

Within one GPU model and driver the log times are fitted by medians as a case's effect plus a GPU's (Tukey's median
polish), so that neither a slow GPU nor an odd case moves the fit. A GPU's effects are its median over all cases and
over the cases of each group (memory, compute, link), each compared with the other GPUs'. Where the fleet is large
enough also the part of a group's effect that the GPU's other groups do not explain is tested: GPUs of one model differ
in all cases together more than in a group.

Healthy GPUs differ, and not normally: an effect is compared with a Student t. A large fleet's is fitted by quantiles
that a tenth of slow GPUs does not move, with a tail as heavy as the fleet leaves possible (``reference``). In a small
one the spread is that of the GPUs below (``small_fleet``), which a slow GPU does not widen. Either scale is moderated
by the spread of the H200s that are known. Holm's procedure controls the error over all GPUs and effects.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd
from peakgate.reports.comparison import noise
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

FLEET_ALPHA = 0.01
"""At most this fraction of healthy fleets names anything: shared by GPUs, nodes and racks."""

ALPHA_SHARES = {"gpu": 0.6, "node": 0.3, "rack": 0.1}
SUSPECT = 5.0
"""A suspect, which is measured again, is what this multiple of FLEET_ALPHA would name."""

SMALLEST_EFFECT = 0.01
"""Nothing is named for less, in log time: 1 %."""

KNOWN_SPREAD, KNOWN_DF = 0.005, 4.0
"""SD of the main effect of known H200s, and the weight it has beside a large fleet's own spread, in df."""

KNOWN_MODEL = "nvidia-h200"
SMALL_SPREAD, SMALL_DF, OTHER_MODEL_DF = 0.0067, 11.0, 4.0
"""The same in a small fleet: the SD of the effect over all cases of the 12 H200s known on 2026-11-22, and its df.

Their gates are in ``runs``, ``lab/floors/runs`` and ``lab/fleet/trial-02a8c0d``. Of another model,
whose GPUs may differ more, it weighs less.
"""

HEAVIEST, LIGHTEST = 8.0, 60.0
"""Degrees of freedom of the assumed t: of a fleet too small to show its tails, and at most."""

TAIL, TAIL_ERRORS = 0.98, 1.5
"""The quantile of absolute deviations that shows the tail, and how many standard errors it is raised by."""

FEWEST_GPUS = 4
"""Fewest GPUs among which an outlier is named."""

FEWEST_PARTIAL = 30
"""Fleets with fewer GPUs are small: no slope between groups can be fitted, and a median deviation is worth little."""

SMALL_TAIL = (10.0, 36.0)
"""Degrees of freedom of a small fleet's t, a + b / GPUs: the most extreme of few GPUs is less far in the tail."""

DRAWS = 4000
"""Normal samples by which the spread of a small fleet's slower part is scaled."""

FEWEST_IN_TAIL = 10
"""With fewer GPUs beyond the quantile TAIL the fleet does not show its tails."""

SWEEPS = 4
GROUPS = ("memory", "compute", "link")
ALL = "all cases"

FloatMatrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KnownSpread:
    """The spread (SD, log time) that is known of healthy units before a fleet is measured, and its weight, in df.

    Both for large fleets and for small ones.
    """

    spread: float = KNOWN_SPREAD
    df: float = KNOWN_DF
    small_spread: float = SMALL_SPREAD
    small_df: float = SMALL_DF

    def of_medians(self, members: float) -> KnownSpread:
        """The same for the medians of so many units."""
        narrower = 1.2533 / math.sqrt(members)
        return replace(self, spread=self.spread * narrower, small_spread=self.small_spread * narrower)


def known_of(slug: str) -> KnownSpread:
    """The known spread of a GPU model."""
    return KnownSpread() if slug == KNOWN_MODEL else KnownSpread(small_df=OTHER_MODEL_DF)


@dataclass(frozen=True, slots=True)
class ReferenceT:
    """How healthy values are distributed: a Student t with this location, scale and degrees of freedom."""

    location: float
    scale: float
    df: float

    def p_values(self, values: FloatMatrix) -> FloatMatrix:
        """The chance of a value as high, one-sided."""
        return np.asarray(special.stdtr(self.df, (self.location - values) / self.scale))

    def threshold(self, p: float) -> float:
        """The value that has this chance."""
        return self.location + self.scale * _isf(p, self.df)


def polish(log_us: FloatMatrix) -> tuple[FloatMatrix, FloatMatrix]:
    """Effects of rows (GPUs) and columns (cases) by medians; columns of the result's residuals have the median 0.

    Missing times (NaN) are left out. Rows' effects have the median 0.
    """
    columns = np.nanmedian(log_us, axis=0)
    rows = np.zeros(len(log_us))
    for _ in range(SWEEPS):
        rows = np.nanmedian(log_us - columns, axis=1)
        rows -= np.nanmedian(rows)
        columns = np.nanmedian(log_us - rows[:, None], axis=0)
    return rows, columns


def effects(log_us: pd.DataFrame, groups: pd.Series) -> pd.DataFrame:
    """A row per GPU: ``all cases`` and each group's effect, in log time, relative to the fleet's median.

    ``log_us`` has a row per GPU and a column per case, ``groups`` the group of each case.
    """
    rows, columns = polish(log_us.to_numpy())
    found = {ALL: rows}
    beside = log_us.to_numpy() - columns
    for group in GROUPS:
        chosen = (groups.reindex(log_us.columns) == group).to_numpy()
        if chosen.any():
            effect = _nanmedian(beside[:, chosen])
            found[group] = effect - np.nanmedian(effect)
    return pd.DataFrame(found, index=log_us.index)


def partial(table: pd.DataFrame) -> pd.DataFrame:
    """Of each group's effect the part that the other groups' effects do not explain, by Theil-Sen slopes.

    Empty where there are too few GPUs to know, or one group.
    """
    groups = [name for name in GROUPS if name in table]
    found = {}
    for name in groups:
        rest = table[name].to_numpy().copy()
        others = [other for other in groups if other != name]
        if not others or len(table) < FEWEST_PARTIAL:
            continue
        for other in others:
            rest -= _slope(table[other].to_numpy(), rest) * table[other].to_numpy()
        found[f"{name} beside the others"] = rest - np.nanmedian(rest)
    return pd.DataFrame(found, index=table.index)


def reference(values: FloatMatrix, known: KnownSpread) -> ReferenceT:
    """The distribution of healthy values in a large fleet, from its own spread and the one that is known."""
    values = values[np.isfinite(values)]
    location = float(np.median(values))
    deviations = np.abs(values - location)
    df = _tail_df(deviations)
    own = float(np.median(deviations)) / _isf(0.25, df)
    own_df = noise.MAD_EFFICIENCY * (len(values) - 1)
    return ReferenceT(location, _pooled(known.spread, known.df, own, own_df), min(df, known.df + own_df))


def small_fleet(values: FloatMatrix, known: KnownSpread) -> list[ReferenceT]:
    """Of a small fleet the distributions that its slowest, second slowest, ... value is compared with.

    The spread is the SD of the values below (generalized extreme Studentized deviates: Rosner, Technometrics 25, 1983),
    for the slowest quarter of the fleet; slower values in the same place of a healthy fleet are left out as well.
    """
    ordered = np.sort(values[np.isfinite(values)])
    count = len(ordered)
    location = float(np.median(ordered))
    found = []
    for left_out, (factor, own_df) in enumerate(_of_lower_part(count), 1):
        own = factor * float(ordered[: count - left_out].std(ddof=1))
        scale = _pooled(known.small_spread, known.small_df, own, own_df)
        df = min(SMALL_TAIL[0] + SMALL_TAIL[1] / count, known.small_df + own_df)
        found.append(ReferenceT(location, scale, df))
    return found


def _pooled(known: float, known_df: float, own: float, own_df: float) -> float:
    return math.sqrt((known_df * known**2 + own_df * own**2) / (known_df + own_df))


@cache
def _of_lower_part(count: int) -> tuple[tuple[float, float], ...]:
    """Per number of largest values left out of a normal sample: the factor from its SD to the whole's, and its df."""
    samples = np.sort(np.random.default_rng(count).standard_normal((DRAWS, count)), axis=1)
    found = []
    for left_out in range(1, max(count // 4, 1) + 1):
        variances = samples[:, : count - left_out].var(axis=1, ddof=1)
        mean = float(variances.mean())
        found.append((1 / math.sqrt(mean), 2 * mean**2 / float(variances.var())))
    return tuple(found)


def _p_values(values: FloatMatrix, known: KnownSpread, p: float) -> tuple[FloatMatrix, float]:
    """The chance of a value as high in a healthy fleet, by value, and from which value on it is below ``p``."""
    finite = np.isfinite(values)
    if finite.sum() >= FEWEST_PARTIAL:
        healthy = reference(values, known)
        return healthy.p_values(values), healthy.threshold(p)
    found = np.where(finite, 1.0, np.nan)
    if finite.sum() < FEWEST_GPUS:
        return found, math.inf
    references = small_fleet(values, known)
    slowest = np.argsort(np.where(finite, values, -np.inf))[::-1][: len(references)]
    chance = 1.0
    for at, healthy in reversed(list(zip(slowest, references, strict=True))):
        # What is slower than an outlier is one, though it widens no spread by which the other was found.
        chance = min(chance, float(healthy.p_values(values[at])))
        found[at] = chance
    return found, references[0].threshold(p)


def judge(table: pd.DataFrame, alpha: float, known: KnownSpread | None = None) -> pd.DataFrame:
    """One row per unit (GPU, node or rack, the index of ``table``) with its most significant effect.

    ``effect_percent`` and ``group`` are of that effect, ``p`` is its Holm-adjusted p-value over all units and effects,
    ``threshold_percent`` what would have been named at ``alpha``. ``named`` and ``suspect`` are what they say.
    """
    parts, thresholds, sizes = {}, {}, table.shape[0] * table.shape[1]
    for name in table:
        parts[name], threshold = _p_values(table[name].to_numpy(), known or KnownSpread(), alpha / sizes)
        thresholds[name] = max(threshold, SMALLEST_EFFECT)
    raw = pd.DataFrame(parts, index=table.index)
    p_values = raw.fillna(1.0).to_numpy()
    adjusted = pd.DataFrame(noise.holm(p_values.ravel()).reshape(raw.shape), raw.index, raw.columns)
    adjusted = adjusted.where(table >= SMALLEST_EFFECT, 1.0)
    # Of effects with the same p-value the first is reported: all cases before one group.
    order = raw.where(table >= SMALLEST_EFFECT, 1.0).fillna(1.0)
    worst = order.to_numpy().argmin(axis=1)
    at = np.arange(len(table))
    names = np.asarray(table.columns)[worst]
    found = pd.DataFrame(
        {
            "group": names,
            "effect_percent": 100 * np.expm1(table.to_numpy()[at, worst]),
            "p": adjusted.to_numpy()[at, worst],
            "threshold_percent": [100 * math.expm1(thresholds[name]) for name in names],
        },
        index=table.index,
    )
    found["named"] = found["p"] < alpha
    found["suspect"] = found["p"] < SUSPECT * alpha
    return found


def by_unit(table: pd.DataFrame, units: pd.Series) -> pd.DataFrame:
    """The median effects of nodes or racks with at least two GPUs; without FEWEST_GPUS of them, none."""
    grouped = table.groupby(units.reindex(table.index))
    found = grouped.median()[grouped.size() >= 2]
    return found if len(found) >= FEWEST_GPUS else found.iloc[:0]


def fleet(
    table: pd.DataFrame, nodes: pd.Series, racks: pd.Series, known: KnownSpread | None = None
) -> dict[str, pd.DataFrame]:
    """``judge`` of GPUs, nodes and racks, in that order of the keys ``gpu``, ``node``, ``rack``.

    ``known`` is what is known of the GPU model, by default of H200s.

    A named rack's effect is taken off its nodes, a named node's off its GPUs: what a GPU shares with its neighbours is
    not named again as its own.
    """
    left, known = table.copy(), known or KnownSpread()
    found = {}
    for level, units in (("rack", racks), ("node", nodes)):
        medians = by_unit(left, units)
        size = max(float(units.reindex(left.index).value_counts().median()), 1.0) if len(medians) else 1.0
        found[level] = (
            judge(medians, FLEET_ALPHA * ALPHA_SHARES[level], known.of_medians(size)) if len(medians) else nothing()
        )
        for unit in found[level].index[found[level]["named"].to_numpy(bool)]:
            members = units.reindex(left.index) == unit
            left.loc[members] -= medians.loc[unit]
    if len(left) < FEWEST_GPUS:
        return {"gpu": nothing(), **found}
    tested = left.join(partial(left))
    return {
        "gpu": judge(tested, FLEET_ALPHA * ALPHA_SHARES["gpu"], known),
        "node": found["node"],
        "rack": found["rack"],
    }


def nothing() -> pd.DataFrame:
    """The result of ``judge`` for no unit."""
    columns = ["group", "effect_percent", "p", "threshold_percent", "named", "suspect"]
    return pd.DataFrame({name: pd.Series(dtype=float) for name in columns}).astype({"named": bool, "suspect": bool})


def _tail_df(deviations: FloatMatrix) -> float:
    """The degrees of freedom of a t whose tail is as heavy as these absolute deviations leave possible."""
    count = len(deviations)
    middle, outer = np.quantile(deviations, (0.5, TAIL)) if count else (0.0, 0.0)
    if count * (1 - TAIL) < FEWEST_IN_TAIL or middle <= 0:
        return HEAVIEST
    normal = -float(special.ndtri((1 - TAIL) / 2))
    density = 2 * math.exp(-(normal**2) / 2) / math.sqrt(2 * math.pi)
    error = math.sqrt(TAIL * (1 - TAIL) / count) / density / normal
    ratio = outer / middle * (1 + TAIL_ERRORS * error)
    grid, ratios = _tails()
    heavy_enough = grid[ratios >= ratio]
    return float(heavy_enough[-1]) if len(heavy_enough) else float(grid[0])


def _isf(p: float, df: float) -> float:
    """The upper quantile of Student's t."""
    return -float(special.stdtrit(df, p))


@cache
def _tails() -> tuple[FloatMatrix, FloatMatrix]:
    """Degrees of freedom, and how far the tail's quantile is beyond the middle one's."""
    grid = np.geomspace(3.0, LIGHTEST, 60)
    return grid, np.asarray(special.stdtrit(grid, (1 - TAIL) / 2) / special.stdtrit(grid, 0.25))


def _slope(x: FloatMatrix, y: FloatMatrix) -> float:
    """A robust slope of y on x: the median over pairs half the fleet apart in x."""
    usable = np.isfinite(x) & np.isfinite(y)
    order = np.argsort(x[usable], kind="stable")
    x, y = x[usable][order], y[usable][order]
    half = len(x) // 2
    run = x[half : 2 * half] - x[:half]
    rise = y[half : 2 * half] - y[:half]
    return float(np.median(rise[run > 0] / run[run > 0])) if (run > 0).any() else 0.0


def _nanmedian(values: FloatMatrix) -> FloatMatrix:
    with np.errstate(all="ignore"):
        return np.asarray(np.nanmedian(values, axis=1))
