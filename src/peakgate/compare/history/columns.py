"""What the level of a series may do: the columns of its regression; pure numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peakgate.compare.history import memory
from peakgate.compare.history.memory import Regressors
from peakgate.compare.noise import Bools, Floats, Positions

SHORTEST = 5
"""Sessions that a change needs on either side."""

RECENT = 35
"""A step is recent while it has no more sessions of its case behind it. Small ones take 15 to 20 to be found."""

LEAST_KNOWN = 0.4
"""A column is tried where its coefficient's variance is at most one over this many sessions': GPUs measured once or
twice say little."""

RAMP, RAMP_GRID = 20, 10
"""A slow change takes so many sessions at least; it begins and ends at every so many."""


class Series(NamedTuple):
    """Log times (case, session) with NaN where a session has none, the GPU of each session and the known changes.

    ``known`` (change, session) is true in the sessions that come after each change of the environment on their GPU.
    """

    values: Floats
    gpus: Positions
    known: Bools


class StepColumn(NamedTuple):
    """What a column stands for: a cut before position ``start``, the ``known`` change, or a ramp to ``end``."""

    start: int
    end: int
    known: int | None = None

    @property
    def is_cut(self) -> bool:
        return self.known is None and self.start == self.end

    @property
    def is_slow(self) -> bool:
        return self.known is None and self.start != self.end


class Pattern(NamedTuple):
    """Sessions that some cases have, and the design of all columns over them.

    ``pairs`` are the first and the second cut of every step that is undone, and each candidate's information on it.
    """

    at: Positions
    columns: tuple[StepColumn, ...]
    design: Regressors
    usable: Bools
    pairs: tuple[Positions, Positions, Floats]


def pattern(at: Positions, series: Series) -> Pattern:
    """All columns over these sessions: cuts, known changes, ramps; which of them may be tried."""
    n = len(at)
    place = np.arange(n)
    named = [StepColumn(cut, cut) for cut in range(1, n)]
    rows = [(place >= cut).astype(float) for cut in range(1, n)]
    for number, known in enumerate(series.known[:, at]):
        named.append(StepColumn(int(known.argmax()), int(n - 1 - (~known)[::-1].argmax()) + 1, number))
        rows.append(known.astype(float))
    grid = [*range(0, n - RAMP_GRID, RAMP_GRID), n - 1]
    for start in grid:
        for end in grid:
            if end - start >= RAMP:
                named.append(StepColumn(start, end))
                rows.append(np.clip((place - start) / (end - start), 0.0, 1.0))
    columns = np.array(rows)
    made = memory.design(series.gpus[at], columns, pooled=len(set(series.gpus.tolist())) > 1)
    is_ramp = np.array([each.is_slow for each in named])
    enough = is_ramp | (_on_either_side(columns >= 1, series.gpus[at]) >= SHORTEST)
    informative = np.diagonal(made.gram[0]) > LEAST_KNOWN
    usable = enough & informative
    return Pattern(at, tuple(named), made, usable, _pairs(made, np.flatnonzero(usable[: n - 1])))


def _on_either_side(after: Bools, gpus: Positions) -> Positions:
    """For each step the sessions on the side that has fewer, of the GPUs that have measured both sides."""
    levels = (gpus[:, None] == np.unique(gpus)).astype(np.intp)
    late, early = after @ levels, ~after @ levels
    both = (late > 0) & (early > 0)
    return np.asarray(np.minimum((late * both).sum(axis=1), (early * both).sum(axis=1)))


def _pairs(made: Regressors, cuts: Positions) -> tuple[Positions, Positions, Floats]:
    first, second = (cuts[each] for each in np.triu_indices(len(cuts), 1))
    far = second - first >= SHORTEST
    first, second = first[far], second[far]
    known = np.diagonal(made.gram, axis1=1, axis2=2)
    spread = known[:, first] + known[:, second] - 2 * made.gram[:, first, second]
    fine = spread[0] > LEAST_KNOWN
    return first[fine], second[fine], spread[:, fine]
