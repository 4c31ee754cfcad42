"""Rates of the fleet's rule on simulated fleets: healthy ones, slow GPUs and nodes, and the peers' rules beside it.

What a simulated fleet names in its first pass counts as named; measuring a suspect again can only take names back.

Fleets are drawn from the saved gate sessions of a few GPUs of one model. A GPU's log time of a case is the case's, plus
the GPU's main effect times the loading of the case's group, plus an effect of this GPU on this case, plus the session's
noise. Loadings, and the SD of the two latter by case, are measured; of the main effect a few GPUs show hardly more than
its size, so its distribution is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from peakgate.core.errors import PeakgateError
from peakgate.reports.fleet import statistics
from peakgate.reports.runs.find import load
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

FEWEST_GPUS = 3
BANK = 20_000
"""GPUs of which every case is simulated; fleets are resampled from their effects."""

GPUS_OF_A_NODE, GPUS_OF_A_RACK = 8, 64
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spread:
    """An assumed distribution of the main effect: ``normal``, ``laplace`` or ``tN``; ``sd`` in log time."""

    shape: str
    sd: float

    def draw(self, rng: np.random.Generator, count: int) -> Matrix:
        """Main effects of so many GPUs."""
        if self.shape == "normal":
            return rng.normal(0.0, self.sd, count)
        if self.shape == "laplace":
            return rng.laplace(0.0, self.sd / np.sqrt(2), count)
        df = float(self.shape.removeprefix("t"))
        return np.asarray(rng.standard_t(df, count) * self.sd / np.sqrt(df / (df - 2)))

    def __str__(self) -> str:
        named = {"normal": "normal", "laplace": "Laplace"}.get(self.shape) or f"Student t, {self.shape[1:]} df"
        return f"{named}, SD {100 * self.sd:.2g} %"


@dataclass(frozen=True, slots=True)
class Known:
    """Saved sessions: a row per case with ``group``, ``loading``, ``own_sd`` and ``session_sd``; and more.

    ``main_effects`` are the GPUs' in percent, ``largest_percent`` how far apart two GPUs are in a case.
    """

    cases: pd.DataFrame
    main_effects: tuple[float, ...]
    largest_percent: float
    sessions: int

    @property
    def loadings(self) -> pd.Series:
        """The loading of each group, and of all cases together: the mean of the cases'."""
        found = self.cases.groupby("group")["loading"].first()
        found.loc[statistics.ALL] = self.cases["loading"].median()
        return found


def known(runs: Path) -> Known:
    """Gate sessions of one GPU model below a folder; a PeakgateError where they are of too few GPUs."""
    table = load(runs)
    table = table[(table["run_tier"] == "gate") & table["time_us"].gt(0)]
    if table["gpu_uuid"].nunique() < FEWEST_GPUS:
        raise PeakgateError(
            f"{runs}: gate sessions of {table['gpu_uuid'].nunique()} GPUs, at least {FEWEST_GPUS} needed"
        )
    log_us = table.pivot(index="run", columns="case", values="time_us").dropna(axis=1).transform(np.log)
    uuids = table.groupby("run")["gpu_uuid"].first().reindex(log_us.index).astype(str)
    means = log_us.groupby(uuids).mean()
    deviations = means - means.mean()
    group = table.groupby("case")["bound"].first().reindex(log_us.columns).astype(str)
    main = deviations.median(axis=1)
    loadings = {}
    for name, columns in group.groupby(group).groups.items():
        medians = deviations[columns].median(axis=1)
        loadings[name] = float((medians * main).sum() / (main**2).sum())
    loading = group.map(loadings)
    own = deviations - np.outer(main, loading)
    count, sessions = len(means), uuids.value_counts()
    within = (log_us - log_us.groupby(uuids).transform("mean")) ** 2
    session_sd = np.sqrt(within.sum() / (len(log_us) - count))
    cases = pd.DataFrame(
        {"group": group, "loading": loading, "own_sd": np.sqrt((own**2).sum() / (count - 1)), "session_sd": session_sd}
    )
    largest = 100 * float(np.expm1((means.max() - means.min()).max()))
    return Known(cases, tuple(100 * main), largest, int(sessions.sum()))


def log_times(known: Known, spread: Spread, count: int, rng: np.random.Generator) -> pd.DataFrame:
    """One session of each of so many healthy GPUs, every case of it."""
    cases = known.cases
    main = np.outer(spread.draw(rng, count), cases["loading"])
    own = rng.normal(0.0, 1.0, (count, len(cases))) * np.hypot(
        cases["own_sd"].to_numpy(), cases["session_sd"].to_numpy()
    )
    return pd.DataFrame(main + own, columns=cases.index)


class Bank:
    """Effects of GPUs without a main effect, each from all its cases; fleets are resampled from it."""

    def __init__(self, known: Known, rng: np.random.Generator) -> None:
        self._rng = rng
        self._loadings = known.loadings
        none = Spread("normal", 0.0)
        self.table = statistics.effects(log_times(known, none, BANK, rng), known.cases["group"])

    def fleet(self, spread: Spread, count: int) -> pd.DataFrame:
        """Effects (``statistics.effects``) of a healthy fleet."""
        chosen = self.table.to_numpy()[self._rng.integers(0, BANK, count)]
        main = np.outer(spread.draw(self._rng, count), self._loadings.reindex(self.table.columns))
        return pd.DataFrame(chosen + main, columns=self.table.columns)


def nodes(count: int) -> tuple[pd.Series, pd.Series]:
    """Node and rack of each GPU of a fleet."""
    at = np.arange(count)
    return pd.Series(at // GPUS_OF_A_NODE).astype(str), pd.Series(at // GPUS_OF_A_RACK).astype(str)


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

GEMM = "sgemm.cublas-4096"
RULES = ("5 % of the mean, any case", "z > 2, one GEMM", "z > 3, one GEMM", "3 MAD", "peakgate")


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
        units = where[0] if kind == NODE else pd.Series(range(size))
        slowed = rng.choice(np.unique(units), count, replace=False)
        rows = units.isin(slowed).to_numpy()
        columns = [statistics.ALL, "memory"] if kind == MEMORY else list(table.columns)
        table.loc[rows, columns] += math.log1p(slowdown)
        found = statistics.fleet(table, *where)
        named = found["node" if kind == NODE else "gpu"]["named"]
        hits += int(named.reindex(slowed).fillna(False).astype(bool).sum())
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
    return float(special.ndtr(signal + special.ndtri(statistics.FLEET_ALPHA / units)))


def peers(known: Known, size: int, fleets: int, rng: np.random.Generator) -> Iterator[dict[str, float | str]]:
    """The peers' rules on the same fleets: healthy ones that name a GPU, and 5 % slow GPUs that are named."""
    columns = ("healthy_fleets_named", "healthy_gpus_named", "slow_named")
    counts = {rule: dict.fromkeys(columns, 0) for rule in RULES}
    for _ in range(fleets):
        table = log_times(known, USUAL, size, rng)
        healthy = _judged(known, table)
        memory = known.cases.index[known.cases["group"] == "memory"]
        table.iloc[0] += np.where(table.columns.isin(memory), math.log1p(0.05), 0.0)
        for rule, flags in _judged(known, table).items():
            seen = (bool(healthy[rule].any()), int(healthy[rule].sum()), bool(flags[0]))
            counts[rule] = {name: counts[rule][name] + count for name, count in zip(columns, seen, strict=True)}
    for rule, found in counts.items():
        yield {"gpus": size, "rule": rule, "fleets": fleets, **found}


def _judged(known: Known, table: pd.DataFrame) -> dict[str, Matrix]:
    """Which GPUs each rule names, by rule."""
    times = np.exp(table.to_numpy())
    gemm = times[:, [str(case) for case in table].index(GEMM)]
    z = (gemm - gemm.mean()) / gemm.std()
    effects = statistics.effects(table, known.cases["group"])
    everything = effects[statistics.ALL].to_numpy()
    away = np.abs(everything - np.median(everything))
    ours = statistics.fleet(effects, *nodes(len(table)))["gpu"]["named"].to_numpy(bool)
    mad = (everything > np.median(everything)) & (away > 3 * 1.4826 * np.median(away))
    return dict(zip(RULES, (_beyond_mean(times), z > 2, z > 3, mad, ours), strict=True))


def _beyond_mean(times: Matrix) -> Matrix:
    """GPUs more than 5 % above the mean of a case, the mean taken again without them until none is left out."""
    kept = np.ones(times.shape, bool)
    while True:
        away = times / np.nanmean(np.where(kept, times, np.nan), axis=0) - 1
        within = np.abs(away) <= 0.05
        if (within | ~kept).all():
            return np.asarray((away > 0.05).any(axis=1))
        kept &= within
