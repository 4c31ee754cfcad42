"""Resamples gates (seeded) from measured processes, assigning processes to sides and pairs; pure.

Processes and pairs are drawn without replacement; if a gate needs more than there are, all are shuffled again. A
process is drawn whole, so that a disturbance of all of its cases stays together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pandas as pd

from peakgate.compare.ab import decide
from peakgate.compare.ab.record import Timed, compared_us
from peakgate.compare.ab.schedule import Phase, Side
from peakgate.compare.noise import Floats


@dataclass(frozen=True, slots=True)
class Medians:
    """ln(compared time in microseconds) by case (row) and pair (column); NaN if a process has no time of a case."""

    cases: tuple[str, ...]
    base: Floats
    head: Floats

    @property
    def pairs(self) -> int:
        return int(self.base.shape[1])

    @property
    def log_time(self) -> Floats:
        """Each case's mean over base's processes."""
        mean: Floats = np.nanmean(self.base, axis=1)
        return mean


class Pairing(Enum):
    """How gates of unchanged code are resampled."""

    AS_MEASURED = "measured pairs in any order, sides swapped at random"
    ANY_TWO = "any two processes, whenever they ran"


def medians(times: pd.DataFrame) -> Medians:
    """Screening pairs that both sides finished, cases sorted by id, without cases that no pair timed."""
    processes = dict(list(times[times["stage"] == Phase.SCREEN].groupby(["side", "pair"], sort=False)))
    compared = compared_us([_timed(process) for process in processes.values()])
    table = pd.DataFrame(dict(zip(processes, compared, strict=True))).sort_index()
    sides = [table[which.value] if which.value in table else pd.DataFrame(index=table.index) for which in Side]
    pairs = sorted(set(sides[0].columns) & set(sides[1].columns))
    base, head = (np.log(side[pairs].to_numpy(dtype=np.float64)) for side in sides)
    timed = np.isfinite(base - head).any(axis=1)
    return Medians(tuple(np.array(table.index)[timed].tolist()), base[timed], head[timed])


def _timed(process: pd.DataFrame) -> list[Timed]:
    controls_us = process["control_us"].astype(np.float64)
    return [
        Timed(case, time_us, control_us if control_us > 0 else None)
        for case, time_us, control_us in zip(process["case"], process["time_us"], controls_us, strict=True)
    ]


def unchanged(measured: Medians, pairs: int, pairing: Pairing, rng: np.random.Generator) -> Floats:
    """Log ratios (case, pair) of ``pairs`` pairs of unchanged code; either side may serve as base."""
    if pairing is Pairing.AS_MEASURED:
        chosen = shuffled(measured.pairs, pairs, rng)
        swapped: Floats = (measured.head - measured.base)[:, chosen] * rng.choice((-1.0, 1.0), size=pairs)
        return swapped
    processes = np.concatenate((measured.base, measured.head), axis=1)
    shuffles = -(-pairs // measured.pairs)
    first, second = np.concatenate(
        [rng.permutation(processes.shape[1]).reshape(2, measured.pairs) for _ in range(shuffles)], axis=1
    )[:, :pairs]
    drawn: Floats = processes[:, second] - processes[:, first]
    return drawn


def changed(measured: Medians, pairs: int, rng: np.random.Generator) -> Floats:
    """Log ratios (case, pair), head against base, of ``pairs`` measured pairs in any order."""
    ratios: Floats = (measured.head - measured.base)[:, shuffled(measured.pairs, pairs, rng)]
    return ratios


def shuffled(count: int, wanted: int, rng: np.random.Generator) -> list[int]:
    """``wanted`` of the numbers below ``count`` in random order, none repeated before all have occurred."""
    shuffles = [rng.permutation(count) for _ in range(-(-wanted // count))]
    chosen: list[int] = np.concatenate(shuffles)[:wanted].tolist()
    return chosen


def as_screened(screen: Floats, log_time: Floats) -> Floats:
    """The pairs (columns) with NaN in place of those that would not have been measured."""
    taken = np.array(screen)
    remaining = list(range(len(screen)))
    for look in decide.SCREENING_LOOKS:
        if look < screen.shape[1]:
            open_rows = set(decide.unsettled(taken[:, :look], log_time))
            settled = [row for row in remaining if row not in open_rows]
            remaining = [row for row in remaining if row in open_rows]
            taken[settled, look:] = np.nan
    return taken
