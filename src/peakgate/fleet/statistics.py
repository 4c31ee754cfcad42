"""Finds slow GPUs, nodes and racks: frames in, frames out; pure.

Within one GPU model and driver, log times are fitted by Tukey's median polish as a case's effect plus a GPU's effect,
which is robust to slow GPUs and outlying cases. A GPU's effects are its medians over all cases and over the cases of
each group (memory, compute, link).

Healthy GPUs are not normally distributed around one value: the GPUs of a host share a level, levels of a model differ
by up to a span (``ModelSpread``), and a GPU deviates slightly from its host's level. So the null hypothesis is
composite: the GPU's level lies between the fleet's fast edge and that edge plus the span. The edge is estimated over
hosts, which are the replicates of levels. The p-value is the largest over these levels, that of the slowest one, from a
Student t distribution with the scale of the deviations within hosts. For nodes and racks, the median is tested in the
same way. Holm's procedure controls the error over all units and effects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

from peakgate.compare import noise

FLEET_ALPHA = 0.01
"""Largest fraction of healthy fleets in which anything is named, divided among GPUs, nodes and racks."""

ALPHA_SHARES = {"gpu": 0.6, "node": 0.3, "rack": 0.1}
"""Bonferroni weights of the three families of tests."""

SUSPECT = 5.0
"""A unit is a suspect, and measured again, if it would be named at this multiple of FLEET_ALPHA."""

FEWEST_GPUS = 4
"""With fewer GPUs, those of earlier fleets are included."""

SWEEPS = 4
"""Iterations of the median polish; Tukey (Exploratory Data Analysis, 1977) uses two to four."""

GROUPS = ("memory", "compute", "link")
ALL = "all cases"

FAST_EDGE = 0.1
"""This quantile of the hosts' levels is the fast edge of a fleet, but never the fastest host's own level, so that one
unusually fast host does not move it."""

DEGREES_OF_FREEDOM = 8.0
"""Of the t distribution: heavier tails than normal, which 18 GPUs cannot exclude."""

FEWEST_NEIGHBOURS = 3
"""GPUs that a host needs to contribute to the SD within hosts."""

FloatMatrix = npt.NDArray[np.float64]


KNOWN_CASES = {ALL: 170, "memory": 136, "compute": 32, "link": 2}
"""Numbers of cases from which the spread of known GPUs was estimated."""

FEW = {ALL: 0.06, "memory": 0.06, "compute": 0.15, "link": 0.06}
"""Additional spread of levels in a single case, in log time; with m cases it is divided by the square root of m."""


@dataclass(frozen=True, slots=True)
class ModelSpread:
    """The variation between healthy GPUs of one model, by effect, in log time.

    ``spans`` are the largest differences between hosts' levels; ``own_sds`` the SDs of a GPU around its host's level,
    with prior weight ``df``. The span is at least ``stretch`` times the distance from a fleet's fast edge to its
    median, so that a fleet wider than known ones names none of its faster half. ``few`` widens both for a fleet that
    measured few cases.
    """

    spans: Mapping[str, float]
    own_sds: Mapping[str, float]
    df: float = 14.0
    stretch: float = 1.0
    few: Mapping[str, float] = field(default_factory=lambda: FEW)

    def of_cases(self, groups: pd.Series) -> ModelSpread:
        """A copy for medians over these cases (``groups``: the group of each), since GPUs differ more in few cases."""
        counts = groups.value_counts().to_dict() | {ALL: len(groups)}
        fewer = {name: max(0.0, counts.get(name, 1) ** -0.5 - KNOWN_CASES[name] ** -0.5) for name in self.spans}
        return replace(
            self,
            spans={name: span + self.few[name] * fewer[name] for name, span in self.spans.items()},
            own_sds={name: sd + self.few[name] * fewer[name] / 8 for name, sd in self.own_sds.items()},
        )


H200 = ModelSpread(
    spans={ALL: 0.0180, "memory": 0.0180, "compute": 0.0190, "link": 0.0120},
    own_sds={ALL: 0.0006, "memory": 0.0006, "compute": 0.0014, "link": 0.0025},
)
"""From the 18 H200s of 12 hosts whose complete gates are committed, with spans a tenth wider; a test checks this."""

OTHER_MODEL = ModelSpread({name: 2 * span for name, span in H200.spans.items()}, H200.own_sds, df=4.0, stretch=5.0)
"""For models without a known fleet: twice an H200's spans, or those of a normal population of this width."""

SINCE_PAST = ModelSpread(dict.fromkeys(H200.spans, 0.01), H200.own_sds, few=dict.fromkeys(FEW, 0.02))
"""For the change of a GPU since an earlier measurement, relative to the other GPUs: below 1 % none is named."""


def spread_of(slug: str) -> ModelSpread:
    """The ModelSpread of a GPU model."""
    return H200 if slug == "nvidia-h200" else OTHER_MODEL


def polish(log_us: FloatMatrix) -> tuple[FloatMatrix, FloatMatrix]:
    """Median polish: the effects of rows (GPUs) and columns (cases); residuals have column medians 0.

    NaN is ignored. The rows' effects have the median 0.
    """
    columns = _median(log_us, 0)
    rows = np.zeros(len(log_us))
    for _ in range(SWEEPS):
        rows = _median(log_us - columns, 1)
        rows -= np.nanmedian(rows)
        columns = _median(log_us - rows[:, None], 0)
    return rows, columns


def effects(log_us: pd.DataFrame, groups: pd.Series) -> pd.DataFrame:
    """The effects of each GPU over ``all cases`` and each group, in log time, relative to the fleet's median.

    ``log_us`` has one row per GPU and one column per case; ``groups`` is the group of each case.
    """
    rows, columns = polish(log_us.to_numpy())
    found = {ALL: rows}
    beside = log_us.to_numpy() - columns
    for group in GROUPS:
        chosen = (groups.reindex(log_us.columns) == group).to_numpy()
        if chosen.any():
            effect = _median(beside[:, chosen], 1)
            found[group] = effect - np.nanmedian(effect)
    return pd.DataFrame(found, index=log_us.index)


def slowest_healthy(table: pd.DataFrame, hosts: pd.Series, spread: ModelSpread) -> pd.Series:
    """The slowest level of a healthy host in this fleet, by effect.

    With few hosts, the edge is the second fastest one, but at most a span from the fastest: if two hosts differ by more
    than two spans, the slower one is slow.
    """
    # Lower median: one slow GPU of two does not make its host's level slow.
    levels = table.groupby(hosts.reindex(table.index)).quantile(0.5, interpolation="lower")
    spans = pd.Series(spread.spans).reindex(table.columns)
    second = np.sort(levels, axis=0)[min(1, len(levels) - 1)]
    trimmed = np.fmin(second, levels.min() + spans)  # fmin: the second is NaN if only one host has an effect
    low = np.maximum(levels.quantile(FAST_EDGE, interpolation="lower"), trimmed)
    return pd.Series(low + np.maximum(spans, spread.stretch * (levels.median() - low)))


def own_sds(table: pd.DataFrame, hosts: pd.Series, spread: ModelSpread) -> pd.Series:
    """The SD of a GPU around its host's level, by effect: the fleet's own, moderated by the model's."""
    by_host = table.groupby(hosts.reindex(table.index))
    sizes = by_host[ALL].transform("size")
    beside = (table - by_host.transform("median"))[sizes >= FEWEST_NEIGHBOURS]
    known = pd.Series(spread.own_sds).reindex(table.columns)
    if beside.empty:
        return known
    own = beside.abs().median() * noise.MAD_TO_SD * math.sqrt((sizes / (sizes - 1))[beside.index].mean())
    own_df = noise.MAD_EFFICIENCY * (len(beside) - hosts.reindex(beside.index).nunique())
    return pd.Series(np.sqrt((spread.df * known**2 + own_df * own.fillna(0.0) ** 2) / (spread.df + own_df)))


def judge(table: pd.DataFrame, alpha: float, limits: pd.Series, sds: pd.Series) -> pd.DataFrame:
    """One row per unit (GPU, node or rack, the index of ``table``) with its most significant effect.

    ``limits`` are the slowest healthy levels and ``sds`` the SDs around a level, by effect. ``effect_percent`` and
    ``group`` belong to that effect, ``p`` is its Holm-adjusted p-value over all units and effects,
    ``threshold_percent`` the smallest effect named at ``alpha``. ``named``: ``p`` is below ``alpha``; ``suspect``:
    below SUSPECT times ``alpha``.
    """
    if table.empty:
        return nothing()
    raw = pd.DataFrame(special.stdtr(DEGREES_OF_FREEDOM, (limits - table) / sds), table.index, table.columns)
    raw = raw.fillna(1.0)
    adjusted = noise.holm(raw.to_numpy().ravel()).reshape(raw.shape)
    # If p-values are equal, the first effect is reported: all cases before a group.
    worst, at = raw.to_numpy().argmin(axis=1), np.arange(len(table))
    thresholds = limits + sds * -float(special.stdtrit(DEGREES_OF_FREEDOM, alpha / raw.size))
    found = pd.DataFrame(
        {
            "group": np.asarray(table.columns)[worst],
            "effect_percent": 100 * np.expm1(table.to_numpy()[at, worst]),
            "p": adjusted[at, worst],
            "threshold_percent": 100 * np.expm1(thresholds.to_numpy()[worst]),
        },
        index=table.index,
    )
    found["named"] = found["p"] < alpha
    found["suspect"] = found["p"] < SUSPECT * alpha
    return found


def fleet(
    table: pd.DataFrame, nodes: pd.Series, racks: pd.Series, spread: ModelSpread = H200
) -> dict[str, pd.DataFrame]:
    """The results of ``judge`` for GPUs, nodes and racks, with the keys ``gpu``, ``node``, ``rack``.

    ``table`` holds the GPUs' effects. Nodes and racks are judged if they have at least two GPUs and there is another
    one. The effect of a named rack is subtracted from its nodes, that of a named node from its GPUs, so that a GPU is
    not named for an effect that it shares with its neighbours.
    """
    if len(table) < FEWEST_GPUS:
        return dict.fromkeys(ALPHA_SHARES, nothing())
    limits = slowest_healthy(table, nodes, spread)
    sds = own_sds(table, nodes, spread)
    left, found = table.copy(), {}
    for level, units in (("rack", racks), ("node", nodes)):
        grouped = left.groupby(units.reindex(left.index))
        sizes = grouped.size()
        # Lower median: more than half of a slow node's GPUs are slow.
        medians = grouped.quantile(0.5, interpolation="lower")[sizes >= 2] if len(sizes) > 1 else left.iloc[:0]
        # Hosts vary as much around a level as GPUs do, so many GPUs do not make a host's level more certain.
        found[level] = judge(medians, FLEET_ALPHA * ALPHA_SHARES[level], limits, sds)
        for unit in found[level].index[found[level]["named"].to_numpy(bool)]:
            left.loc[units.reindex(left.index) == unit] -= medians.loc[unit]
    return {
        "gpu": judge(left, FLEET_ALPHA * ALPHA_SHARES["gpu"], limits, sds),
        "node": found["node"],
        "rack": found["rack"],
    }


def nothing() -> pd.DataFrame:
    """The result of ``judge`` without units."""
    columns = ["group", "effect_percent", "p", "threshold_percent", "named", "suspect"]
    return pd.DataFrame({name: pd.Series(dtype=float) for name in columns}).astype({"named": bool, "suspect": bool})


def _median(values: FloatMatrix, axis: int) -> FloatMatrix:
    """The median ignoring NaN; several times as fast without NaN."""
    if not np.isnan(values).any():
        return np.asarray(np.median(values, axis=axis))
    with np.errstate(all="ignore"):
        return np.asarray(np.nanmedian(values, axis=axis))
