"""Simulated histories: ``python -m lab.bisect.simulate RECORD``, fills docs/explanation/finding-a-commit.md.

Each history has as many commits as asked for, each with machine code of its own, and one of them makes one kernel
slower. The search is the one of ``peakgate bisect``; its pairs are those of a kernel of the record, measured against
itself (``same``), in random order with sides swapped at random, plus the slowdown where only one side has it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from lab.injected.record import Experiment, read_times
from lab.injected.resample import Medians, Pairing, medians, unchanged
from lab.pages import open_page, table
from peakgate.base.errors import PeakgateError, refused
from peakgate.base.verdict import ExitCode
from peakgate.compare.bisect.search import Effort, End, search


class SimulatedPairs:
    """Pairs of one kernel in a history whose commits from ``slow`` on take ``shift`` (ln) longer."""

    def __init__(self, measured: Medians, row: int, slow: int, shift: float, rng: np.random.Generator) -> None:
        self._one = Medians(measured.cases[row : row + 1], measured.base[row : row + 1], measured.head[row : row + 1])
        self._slow, self._shift, self._rng = slow, shift, rng
        self.commits: set[int] = set()
        self.taken = 0

    def __call__(self, base: int, head: int, count: int) -> Sequence[float]:
        self.commits |= {base, head}
        self.taken += count
        noise = unchanged(self._one, count, Pairing.AS_MEASURED, self._rng)[0]
        change = self._shift * ((head >= self._slow) - (base >= self._slow))
        values: list[float] = (noise[np.isfinite(noise)] + change).tolist()
        return values


def simulate(
    measured: Medians, histories: int, commits: int, slowdown: float, *, effort: Effort, seed: int
) -> pd.DataFrame:
    """So many histories, a row each; their kernels are spread evenly over the record's, by duration.

    ``slow`` is the commit that slows the kernel, ``named`` what the search named, -1 where nothing; ``commits`` and
    ``pairs`` are how many it measured.
    """
    rng = np.random.default_rng(seed)
    by_time = np.argsort(measured.log_time)
    found = []
    for number in range(histories):
        row = int(by_time[(2 * number + 1) * len(by_time) // (2 * histories)])
        slow = int(rng.integers(1, commits))
        pairs = SimulatedPairs(measured, row, slow, math.log1p(slowdown), rng)
        outcome = search(commits - 1, pairs, effort)
        named = outcome.group if outcome.end is End.FOUND else -1
        found.append((measured.cases[row], slow, named, len(pairs.commits), pairs.taken))
    return pd.DataFrame(found, columns=["case", "slow", "named", "commits", "pairs"])


ROWS = ((0.01, 40), (0.01, 300), (0.004, 300))
"""Rows of the page's table: slowdown and number of histories."""

BLOCK = "bisect-simulated"


COMMITS, SEED = 64, 1


def simulated(measured: Medians) -> str:
    """The page's table: a row per entry of ROWS."""
    rows = []
    for slowdown, histories in ROWS:
        found = simulate(measured, histories, COMMITS, slowdown, effort=Effort(), seed=SEED)
        right, none = int((found["named"] == found["slow"]).sum()), int((found["named"] < 0).sum())
        middle = [f"{found[name].median():g}" for name in ("commits", "pairs")]
        cells = [f"{100 * slowdown:g} %", histories, f"{right} ({100 * right / histories:.1f} %)"]
        rows.append([*cells, histories - right - none, none, *middle])
    head = ("slowdown", "histories", "right commit", "wrong commit", "none named", "median commits measured")
    return table((*head, "median pairs"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, and print the table or fill a page with it; 2 where there is no record or no page."""
    parser = argparse.ArgumentParser(prog="python -m lab.bisect.simulate", description=__doc__)
    parser.add_argument("record", type=Path, metavar="RECORD", help="the folder of a campaign's record")
    parser.add_argument("--page", type=Path, metavar="PAGE", help=f"fill the block ladder:{BLOCK} of a page instead")
    options = parser.parse_args(arguments)
    try:
        page = open_page(options.page)
        page({BLOCK: simulated(medians(read_times(options.record, Experiment.SAME)))})
    except PeakgateError as error:
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
