"""Rates of the fleet's rule on simulated fleets: healthy ones, slow GPUs and nodes, and the peers' rules beside it.

What a simulated fleet names in its first pass counts as named; measuring a suspect again can only take names back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from peakgate.reports.fleet import statistics
from peakgate.reports.fleet.simulated.draw import GPUS_OF_A_NODE, Bank, Known, Matrix, Spread, log_times, nodes
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

SIZES = (8, 64, 1000, 10_000)
SPREADS = (
    *(Spread("normal", 0.0025), Spread("normal", 0.005), Spread("normal", 0.0067), Spread("normal", 0.01)),
    *(Spread("laplace", 0.005), Spread("t8", 0.005), Spread("t5", 0.005)),
)
USUAL = SPREADS[1]
SLOWDOWNS = (0.01, 0.015, 0.02, 0.03, 0.04, 0.05)
MEMORY, ALL, NODE = "the memory-bound cases", "every case", "every case of a node of eight"
KINDS = (MEMORY, ALL, NODE)
SLOW_SHARE = 0.002
"""Of a large fleet so many GPUs are slowed at once, which hardly moves what they are compared with."""

SUPERBENCH, GEMM_Z2, GEMM_Z3, MAD, OURS = (
    "5 % of the mean, any case",
    "z > 2, one GEMM",
    "z > 3, one GEMM",
    "3 MAD",
    "peakgate",
)
GEMM = "sgemm.cublas-4096"
RULES = (SUPERBENCH, GEMM_Z2, GEMM_Z3, MAD, OURS)


def healthy(bank: Bank, size: int, spread: Spread, fleets: int) -> dict[str, float | str]:
    """How many of so many healthy fleets name a GPU, a node or a rack."""
    where = nodes(size)
    named = {"gpu": 0, "node": 0, "rack": 0, "any": 0}
    for _ in range(fleets):
        found = statistics.fleet(bank.fleet(spread, size), *where)
        flags = {level: bool(table["named"].any()) for level, table in found.items()}
        for level, flag in (flags | {"any": any(flags.values())}).items():
            named[level] += flag
    return {"gpus": size, "spread": str(spread), "fleets": fleets, **named}


def detected(
    bank: Bank, size: int, kind: str, slowdown: float, *, trials: int, rng: np.random.Generator
) -> tuple[int, int]:
    """How many of the slowed GPUs (of a node: nodes) were named, and how many there were."""
    where = nodes(size)
    count = max(1, round(SLOW_SHARE * size / (GPUS_OF_A_NODE if kind == NODE else 1)))
    hits = total = 0
    while total < trials:
        table = bank.fleet(USUAL, size)
        slowed = (
            rng.choice(np.unique(where[0]), count, replace=False)
            if kind == NODE
            else rng.choice(size, count, replace=False)
        )
        rows = where[0].isin(slowed).to_numpy() if kind == NODE else np.isin(np.arange(size), slowed)
        columns = [statistics.ALL, "memory"] if kind == MEMORY else list(table.columns)
        table.loc[rows, columns] += math.log1p(slowdown)
        found = statistics.fleet(table, *where)
        units = found["node" if kind == NODE else "gpu"]["named"]
        hits += int(units.reindex(slowed).fillna(False).astype(bool).sum())
        total += count
    return hits, total


def best(known: Known, size: int, kind: str, slowdown: float) -> float:
    """Power of the best test for a known direction, known normal spread and the same error (Neyman-Pearson)."""
    groups = list(statistics.GROUPS)
    counts = known.cases["group"].value_counts().reindex(groups)
    variance = (known.cases["own_sd"] ** 2 + known.cases["session_sd"] ** 2).groupby(known.cases["group"])
    weights = variance.apply(lambda own: 1 / (1 / own).sum()).reindex(groups).to_numpy()
    loading = known.loadings.reindex(groups).to_numpy()
    covariance = USUAL.sd**2 * np.outer(loading, loading) + np.diag(weights)
    direction = (
        np.array([1.0 if group == "memory" or kind != MEMORY else 0.0 for group in groups]) * (counts > 0).to_numpy()
    )
    units, members = (size // GPUS_OF_A_NODE, GPUS_OF_A_NODE) if kind == NODE else (size, 1)
    signal = math.log1p(slowdown) * math.sqrt(members * direction @ np.linalg.solve(covariance, direction))
    return float(special.ndtr(signal + special.ndtri(statistics.ALPHA / units)))


def peers(known: Known, size: int, fleets: int, rng: np.random.Generator) -> Iterator[dict[str, float | str]]:
    """The peers' rules on the same fleets: healthy ones that name a GPU, and 5 % slow GPUs that are named."""
    named, hits, false = (dict.fromkeys(RULES, 0) for _ in range(3))
    for _ in range(fleets):
        table = log_times(known, USUAL, size, rng)
        for rule, flags in _judged(known, table).items():
            named[rule] += bool(flags.any())
            false[rule] += int(flags.sum())
        memory = known.cases.index[known.cases["group"] == "memory"]
        table.iloc[0] += np.where(table.columns.isin(memory), math.log1p(0.05), 0.0)
        for rule, flags in _judged(known, table).items():
            hits[rule] += bool(flags[0])
    for rule in RULES:
        counted = {"healthy_fleets_named": named[rule], "healthy_gpus_named": false[rule], "slow_named": hits[rule]}
        yield {"gpus": size, "rule": rule, "fleets": fleets, **counted}


def _judged(known: Known, table: pd.DataFrame) -> dict[str, Matrix]:
    """Which GPUs each rule names, by rule."""
    times = np.exp(table.to_numpy())
    gemm = times[:, [str(case) for case in table].index(GEMM)]
    z = (gemm - gemm.mean()) / gemm.std()
    effects = statistics.effects(table, known.cases["group"])
    everything = effects[statistics.ALL].to_numpy()
    away = np.abs(everything - np.median(everything))
    ours = statistics.fleet(effects, *nodes(len(table)))["gpu"]["named"].to_numpy(bool)
    return {
        SUPERBENCH: _beyond_mean(times),
        GEMM_Z2: z > 2,
        GEMM_Z3: z > 3,
        MAD: (everything > np.median(everything)) & (away > 3 * 1.4826 * np.median(away)),
        OURS: ours,
    }


def _beyond_mean(times: Matrix, limit: float = 0.05) -> Matrix:
    """GPUs more than 5 % above the mean of a case, the mean taken again without them until none is left out."""
    kept = np.ones(times.shape, bool)
    while True:
        means = np.nanmean(np.where(kept, times, np.nan), axis=0)
        within = np.abs(times / means - 1) <= limit
        if (within | ~kept).all():
            return np.asarray((times / means - 1 > limit).any(axis=1))
        kept &= within
