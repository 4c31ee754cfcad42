"""Simulated histories: ``python -m lab.bisect.simulate RECORD``, fills docs/explanation/finding-a-commit.md.

Each history has 64 commits with different machine code, one of which slows one kernel down. The search is that of
``peakgate bisect``; its comparisons are decided as those of ``ab``. Their pairs are those of a kernel of the record,
measured against itself (``same``), in random order with sides swapped at random, plus the slowdown if only one side has
it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from lab.injected.record import Experiment, read_times
from lab.injected.resample import Medians, Pairing, as_screened, medians, unchanged
from lab.pages import show, table
from peakgate.base.errors import PeakgateError, refused
from peakgate.base.verdict import ExitCode, Verdict
from peakgate.compare.ab.decide import CaseStatus, decide
from peakgate.compare.ab.schedule import looks
from peakgate.compare.bisect.search import CaseRow, PointState, search
from peakgate.runfile.frame import records

PAIRS, CONFIRM_PAIRS = 10, 20
COMMITS, SEED = 64, 1
ROWS = ((0.02, 100), (0.01, 200), (0.004, 100))
"""Rows of the page's table: slowdown and number of histories."""

BLOCK = "bisect-simulated"


class SimulatedAb:
    """``ab`` of one kernel in a history whose commits from ``slow`` on take ``shift`` (ln) longer."""

    def __init__(self, measured: Medians, row: int, slow: int, shift: float, rng: np.random.Generator) -> None:
        self._one = Medians(measured.cases[row : row + 1], measured.base[row : row + 1], measured.head[row : row + 1])
        self._slow, self._shift, self._rng = slow, shift, rng
        self.comparisons = 0

    def __call__(self, base: str, head: str) -> CaseRow:
        """The row of two commits, by their numbers."""
        self.comparisons += 1
        change = self._shift * ((int(head) >= self._slow) - (int(base) >= self._slow))
        planned = looks(CONFIRM_PAIRS)
        screen, confirm = (
            unchanged(self._one, pairs, Pairing.AS_MEASURED, self._rng) + change for pairs in (PAIRS, planned[-1].pairs)
        )
        screened = as_screened(screen, self._one.log_time)
        (found,) = records(decide(screened, confirm, self._one.log_time, planned, [True]))
        slower = Verdict.SLOWER if found.direction > 0 else Verdict.FASTER
        verdicts = {CaseStatus.FLAGGED: slower, CaseStatus.OPEN: Verdict.INCONCLUSIVE}
        return CaseRow(self._one.cases[0], verdicts.get(found.status, Verdict.SAME), "")


def simulate(measured: Medians, histories: int, commits: int, slowdown: float, *, seed: int) -> pd.DataFrame:
    """Simulate ``histories`` histories, one row each; their kernels are spread evenly over the record's, by duration.

    ``slow`` is the commit that slows the kernel down, ``named`` the commit that the search named, -1 if none;
    ``comparisons`` is their number.
    """
    rng = np.random.default_rng(seed)
    by_time = np.argsort(measured.log_time)
    points = [str(number) for number in range(commits)]
    found = []
    for number in range(histories):
        row = int(by_time[(2 * number + 1) * len(by_time) // (2 * histories)])
        slow = int(rng.integers(1, commits))
        ab = SimulatedAb(measured, row, slow, math.log1p(slowdown), rng)
        named = -1
        if ab(points[0], points[-1]).state is PointState.BAD:
            outcome = search(points, partial(ab, points[0]), ab)
            named = int(outcome.suspects[0]) if outcome.exit_code is ExitCode.REGRESSION else -1
        found.append((measured.cases[row], slow, named, ab.comparisons))
    return pd.DataFrame(found, columns=["case", "slow", "named", "comparisons"])


def simulated(measured: Medians) -> str:
    """The page's table: a row per entry of ROWS."""
    rows = []
    for slowdown, histories in ROWS:
        found = simulate(measured, histories, COMMITS, slowdown, seed=SEED)
        right, none = int((found["named"] == found["slow"]).sum()), int((found["named"] < 0).sum())
        cells = [f"{100 * slowdown:g} %", histories, f"{right} ({100 * right / histories:.1f} %)"]
        rows.append([*cells, histories - right - none, none, f"{found['comparisons'].median():g}"])
    head = ("slowdown", "histories", "right commit", "wrong commit", "none named", "median comparisons")
    return table(head, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, and print the table or fill a page with it; exit code 2 if the record or the page is missing."""
    parser = argparse.ArgumentParser(prog="python -m lab.bisect.simulate", description=__doc__)
    parser.add_argument("record", type=Path, metavar="RECORD", help="the folder of a campaign's record")
    parser.add_argument("--page", type=Path, metavar="PAGE", help=f"fill the block ladder:{BLOCK} of a page instead")
    options = parser.parse_args(arguments)
    try:
        show({BLOCK: simulated(medians(read_times(options.record, Experiment.SAME)))}, options.page)
    except PeakgateError as error:
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
