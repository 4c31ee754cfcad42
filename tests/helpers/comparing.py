"""Runs written for a comparison, and what it said of a case."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from synthetic_runs import LADDER, document, save

from peakgate.base.verdict import Verdict
from peakgate.compare import judge
from peakgate.compare.result import Comparison
from peakgate.runfile.find import RunSide
from peakgate.runfile.frame import to_frame
from peakgate.runfile.saved import Run, load_run

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


def compare(base: RunSide, new: RunSide, history: Sequence[Run] = (), *, across_gpus: bool = False) -> Comparison:
    """The two sides compared as ``peakgate compare`` does."""
    others = to_frame(history) if history else None
    return Comparison(base, new, judge.compare(base.frame, new.frame, others, across_gpus=across_gpus))


def row(comparison: Comparison, case: str = PAD) -> SimpleNamespace:
    """The case's row, its verdict as such."""
    found = next(row for row in comparison.records if row.case == case)
    return SimpleNamespace(**vars(found) | {"verdict": Verdict(found.verdict)})


def shift(comparison: Comparison, case: str = PAD) -> SimpleNamespace:
    """The case's ``log_ratio`` and ``resolvable`` shift, as natural logarithms, and its ``p_value``."""
    found = row(comparison, case)
    figures = (found.change_percent, found.smallest_detectable_change_percent)
    log_ratio, resolvable = (math.log1p(each / 100) for each in figures)
    return SimpleNamespace(log_ratio=log_ratio, resolvable=resolvable, p_value=found.p_value)


def verdicts(comparison: Comparison) -> set[Verdict]:
    return {Verdict(row.verdict) for row in comparison.records}
