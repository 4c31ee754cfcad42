"""Gates drawn from measured processes: which process stands on which side of which pair; pure.

A gate needs screening pairs and the confirming pairs of its last look. Processes, and pairs, are dealt like cards:
none comes twice before all have come once, so with enough of them a gate draws without replacement, and where it needs
more the deck is shuffled anew. A process is drawn whole: what moved all of its cases stays together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pandas as pd
from peakgate.reports.ab.schedule import Stage, Which
from peakgate.reports.comparison.noise import Floats

SCREENING_PAIRS = 10
CONFIRMING_PAIRS = 20
"""What ``ab`` takes by default."""


@dataclass(frozen=True, slots=True)
class Medians:
    """Log medians in microseconds by case (row) and pair (column); NaN where a process has no time of a case."""

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
    """How gates of unchanged code are drawn from it."""

    AS_MEASURED = "pairs as they were measured, in any order, sides swapped by lot"
    BY_LOT = "any two processes, whenever they ran"


def medians(summary: pd.DataFrame) -> Medians:
    """The record's screening pairs that both sides finished, cases in the order of their ids.

    A case that no pair timed on both sides is left out: nothing can be said of it.
    """
    screened = summary[summary["stage"] == Stage.SCREEN]
    table = screened.pivot_table(index="case", columns=["side", "pair"], values="median_us", sort=True)
    sides = [table[which.value] if which.value in table else pd.DataFrame(index=table.index) for which in Which]
    pairs = sorted(set(sides[0].columns) & set(sides[1].columns))
    base, head = (np.log(side[pairs].to_numpy(dtype=np.float64)) for side in sides)
    timed = np.isfinite(base - head).any(axis=1)
    return Medians(tuple(np.array(table.index)[timed].tolist()), base[timed], head[timed])


def unchanged(measured: Medians, pairs: int, pairing: Pairing, lot: np.random.Generator) -> Floats:
    """Log ratios (case, pair) of so many pairs of unchanged code; either side may stand for base."""
    if pairing is Pairing.AS_MEASURED:
        chosen = dealt(measured.pairs, pairs, lot)
        signs = lot.choice((-1.0, 1.0), size=pairs)
        swapped: Floats = (measured.head - measured.base)[:, chosen] * signs
        return swapped
    processes = np.concatenate((measured.base, measured.head), axis=1)
    hands = -(-pairs // measured.pairs)
    first, second = np.concatenate(
        [lot.permutation(processes.shape[1]).reshape(2, measured.pairs) for _ in range(hands)], axis=1
    )[:, :pairs]
    drawn: Floats = processes[:, second] - processes[:, first]
    return drawn


def changed(measured: Medians, pairs: int, lot: np.random.Generator) -> Floats:
    """Log ratios (case, pair), head against base, of so many measured pairs in any order."""
    ratios: Floats = (measured.head - measured.base)[:, dealt(measured.pairs, pairs, lot)]
    return ratios


def dealt(cards: int, wanted: int, lot: np.random.Generator) -> Sequence[int]:
    """So many of the numbers below ``cards``, none again before all have come."""
    decks = [lot.permutation(cards) for _ in range(-(-wanted // cards))]
    chosen: list[int] = np.concatenate(decks)[:wanted].tolist()
    return chosen
