"""Which GPUs, nodes and racks are slow: frames in, frames out, nothing else.

Within one GPU model and driver the log times are fitted by medians as a case's effect plus a GPU's (Tukey's median
polish), so that neither a slow GPU nor an odd case moves the fit. A GPU's effects are its median over all cases and
over the cases of each group (memory, compute, link).

Healthy GPUs are not normal around one value: a host's GPUs share a level, levels of a model are up to a span apart
(``ModelSpread``), and a GPU differs a little from its host's level. So the null hypothesis is composite: the GPU's
level is anywhere from the fleet's fast edge to that edge plus the span. The edge is one of hosts, which are the
replicates of levels: the GPUs of one host that is too fast are one observation. Its p-value is the largest over these
levels, which is that of the slowest one, by a Student t with the scale of the deviations within hosts. Of nodes and
racks the median is tested in the same way. Holm's procedure controls the error over all units and effects.
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
"""At most this fraction of healthy fleets names anything: shared by GPUs, nodes and racks."""

ALPHA_SHARES = {"gpu": 0.6, "node": 0.3, "rack": 0.1}
"""Bonferroni's weights of the three families."""

SUSPECT = 5.0
"""A suspect, which is measured again, is what this multiple of FLEET_ALPHA would name."""

FEWEST_GPUS = 4
"""Fewest GPUs that are compared among themselves; fewer are compared with earlier fleets too."""

SWEEPS = 4
"""Of the median polish; Tukey (Exploratory Data Analysis, 1977) stops after two to four."""

GROUPS = ("memory", "compute", "link")
ALL = "all cases"

FAST_EDGE = 0.1
"""This quantile of the hosts' levels is the fast edge of a fleet, but never the fastest host's own level: one host that
is faster than any known level does not move it."""

DEGREES_OF_FREEDOM = 8.0
"""Of the t: heavier than a normal tail, which 18 GPUs cannot exclude."""

FEWEST_NEIGHBOURS = 3
"""GPUs of a host by whose median the host's level is estimated."""

FloatMatrix = npt.NDArray[np.float64]


KNOWN_CASES = {ALL: 170, "memory": 136, "compute": 32, "link": 2}
"""By so many cases the spread of known GPUs was estimated."""

FEW = {ALL: 0.06, "memory": 0.06, "compute": 0.15, "link": 0.06}
"""How much wider levels lie apart in one case, in log time; in m cases as one over the root of m."""


@dataclass(frozen=True, slots=True)
class ModelSpread:
    """How healthy GPUs of one model differ, by effect, in log time.

    ``spans`` is how far levels of hosts are apart at most; ``own_sds`` the SD of a GPU within its level, whose weight
    beside the fleet's own is ``df``. The span is at least ``stretch`` times the distance from a fleet's fast edge to
    its median: a fleet that is wider than what is known names none of its faster half. ``few`` widens both for a
    fleet that measured few cases.
    """

    spans: Mapping[str, float]
    own_sds: Mapping[str, float]
    df: float = 14.0
    stretch: float = 1.0
    few: Mapping[str, float] = field(default_factory=lambda: FEW)

    def of_cases(self, groups: pd.Series) -> ModelSpread:
        """The same by the medians over these cases (of each the group): GPUs differ more in few cases than in many."""
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
"""Of the 18 H200s of 12 hosts whose whole gates are committed, spans a tenth wider; a test compares them."""

OTHER_MODEL = ModelSpread({name: 2 * span for name, span in H200.spans.items()}, H200.own_sds, df=4.0, stretch=5.0)
"""Of a model of which no fleet is known: twice an H200's levels, or what a normal population of this width has."""

SINCE_PAST = ModelSpread(dict.fromkeys(H200.spans, 0.01), H200.own_sds, few=dict.fromkeys(FEW, 0.02))
"""The change of a GPU since it was measured before, beside the other GPUs' change: less than 1 % is not named."""


def spread_of(slug: str) -> ModelSpread:
    """How healthy GPUs of a model differ."""
    return H200 if slug == "nvidia-h200" else OTHER_MODEL


def polish(log_us: FloatMatrix) -> tuple[FloatMatrix, FloatMatrix]:
    """Effects of rows (GPUs) and columns (cases) by medians; columns of the result's residuals have the median 0.

    Missing times (NaN) are left out. Rows' effects have the median 0.
    """
    columns = _median(log_us, 0)
    rows = np.zeros(len(log_us))
    for _ in range(SWEEPS):
        rows = _median(log_us - columns, 1)
        rows -= np.nanmedian(rows)
        columns = _median(log_us - rows[:, None], 0)
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
            effect = _median(beside[:, chosen], 1)
            found[group] = effect - np.nanmedian(effect)
    return pd.DataFrame(found, index=log_us.index)


def slowest_healthy(table: pd.DataFrame, hosts: pd.Series, spread: ModelSpread) -> pd.Series:
    """The slowest level that a healthy host of this fleet may have, by effect.

    Of few hosts the edge is the second fastest one, but no further than a span from the fastest: of two hosts that
    differ by more than two spans the slower one is slow.
    """
    # Of an even number of GPUs the faster one in the middle: a slow GPU of two is no slow level.
    levels = table.groupby(hosts.reindex(table.index)).quantile(0.5, interpolation="lower")
    spans = pd.Series(spread.spans).reindex(table.columns)
    second = np.sort(levels, axis=0)[min(1, len(levels) - 1)]
    trimmed = np.fmin(second, levels.min() + spans)  # without the second where one host alone has an effect
    low = np.maximum(levels.quantile(FAST_EDGE, interpolation="lower"), trimmed)
    return pd.Series(low + np.maximum(spans, spread.stretch * (levels.median() - low)))


def own_sds(table: pd.DataFrame, hosts: pd.Series, spread: ModelSpread) -> pd.Series:
    """The SD of a GPU within its host's level, by effect: the fleet's own, moderated by what is known of the model."""
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

    ``limits`` are the slowest healthy levels and ``sds`` the SDs about a level, by effect. ``effect_percent`` and
    ``group`` are of that effect, ``p`` is its Holm-adjusted p-value over all units and effects, ``threshold_percent``
    what would have been named at ``alpha``. ``named`` and ``suspect`` are what they say.
    """
    if table.empty:
        return nothing()
    raw = pd.DataFrame(special.stdtr(DEGREES_OF_FREEDOM, (limits - table) / sds), table.index, table.columns)
    raw = raw.fillna(1.0)
    adjusted = noise.holm(raw.to_numpy().ravel()).reshape(raw.shape)
    # Of effects with the same p-value the first is reported: all cases before one group.
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
    """``judge`` of GPUs, nodes and racks, in that order of the keys ``gpu``, ``node``, ``rack``.

    ``table`` has the GPUs' effects. Nodes and racks are those with at least two GPUs, beside at least one other. A
    named rack's effect is taken off its nodes, a named node's off its GPUs: what a GPU shares with its neighbours is
    not named again as its own.
    """
    if len(table) < FEWEST_GPUS:
        return dict.fromkeys(ALPHA_SHARES, nothing())
    limits = slowest_healthy(table, nodes, spread)
    sds = own_sds(table, nodes, spread)
    left, found = table.copy(), {}
    for level, units in (("rack", racks), ("node", nodes)):
        grouped = left.groupby(units.reindex(left.index))
        sizes = grouped.size()
        # Of an even number of GPUs the faster one in the middle: more than half of a slow node's GPUs are slow.
        medians = grouped.quantile(0.5, interpolation="lower")[sizes >= 2] if len(sizes) > 1 else left.iloc[:0]
        # Hosts of one level differ as much as its GPUs do: many GPUs do not make a host's level more certain.
        found[level] = judge(medians, FLEET_ALPHA * ALPHA_SHARES[level], limits, sds)
        for unit in found[level].index[found[level]["named"].to_numpy(bool)]:
            left.loc[units.reindex(left.index) == unit] -= medians.loc[unit]
    return {
        "gpu": judge(left, FLEET_ALPHA * ALPHA_SHARES["gpu"], limits, sds),
        "node": found["node"],
        "rack": found["rack"],
    }


def nothing() -> pd.DataFrame:
    """The result of ``judge`` for no unit."""
    columns = ["group", "effect_percent", "p", "threshold_percent", "named", "suspect"]
    return pd.DataFrame({name: pd.Series(dtype=float) for name in columns}).astype({"named": bool, "suspect": bool})


def _median(values: FloatMatrix, axis: int) -> FloatMatrix:
    """The median without missing values; several times as fast where none is missing."""
    if not np.isnan(values).any():
        return np.asarray(np.median(values, axis=axis))
    with np.errstate(all="ignore"):
        return np.asarray(np.nanmedian(values, axis=axis))
