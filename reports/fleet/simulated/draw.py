"""Fleets drawn from the saved gate sessions of a few GPUs of one model.

A GPU's log time of a case is the case's, plus the GPU's main effect times the loading of the case's group, plus an
effect of this GPU on this case, plus the session's noise. Loadings, and the SD of the two latter by case, are measured;
of the main effect a few GPUs show hardly more than its size, so its distribution is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from peakgate.common.errors import PeakgateError
from peakgate.reports.fleet import statistics
from peakgate.reports.runs.frame import load

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
    """What saved sessions show: a row per case with ``group``, ``loading``, ``own_sd`` and ``session_sd``; and more.

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
    """What the gate sessions below a folder show of one GPU model; a PeakgateError where they are of too few GPUs."""
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
