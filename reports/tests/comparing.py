"""Runs written for a comparison, and what it said of a case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from peakgate.reports.result import ComparedCase, Comparison, Shift
from peakgate.reports.runs.find import RunSide
from peakgate.reports.runs.runfile import Run, load_run
from peakgate.verdict import Verdict
from synthetic_runs import LADDER, document, save

PAD = "transpose.smem_pad-8192-32x8"

KEPT = Path(__file__).parents[2] / "baselines" / "nvidia-h200" / "runs"
TENS = ("20261120T17*-gate.json.gz", "20261120T194[2-4]*-gate.json.gz", "20261121T13*-gate.json.gz")
"""Ten gate sessions each of three H200s, of one code and one driver; the first is the slowest of them."""


class Saved:
    """Runs written to and read back from a folder, numbered as they come."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def run(self, times_us: Mapping[str, float] = LADDER, **content: Any) -> Run:
        self.count += 1
        return load_run(save(self.folder, f"run{self.count}", document(times_us, **({"day": 1} | content))))

    def side(self, *times_us: Mapping[str, float], **content: Any) -> RunSide:
        runs = tuple(self.run(times, **content) for times in times_us or (LADDER,))
        return RunSide("side", runs)

    def sessions(
        self, count: int, sd: float, seed: int, factor: Mapping[str, float] | None = None, **content: Any
    ) -> tuple[Run, ...]:
        """Sessions of the ladder whose medians scatter by ``sd``; some cases slower by a factor."""
        rng = np.random.default_rng(seed)
        factors = factor or {}
        return tuple(
            self.run(
                {case: us * factors.get(case, 1) * math.exp(sd * rng.standard_normal()) for case, us in LADDER.items()},
                **{"day": 1 + number, **content},
            )
            for number in range(count)
        )


def row(comparison: Comparison, case: str = PAD) -> ComparedCase:
    return next(row for row in comparison.rows if row.case == case)


def shift(comparison: Comparison, case: str = PAD) -> Shift:
    found = row(comparison, case).shift
    assert found is not None
    return found


def verdicts(comparison: Comparison) -> set[Verdict]:
    return {row.verdict for row in comparison.rows}
