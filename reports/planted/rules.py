"""Other tools' rules for "it got slower", on the samples of two sides; pure.

Each is what its tool's documentation or source says, read in November 2026, and takes the samples of both sides as the
tool does: pooled, whichever process they came from. Ours, on pairs of processes, is ``reports.ab.decide``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from peakgate.reports.comparison.noise import Floats, upper_quantile
from scipy import special, stats  # type: ignore[import-untyped]  # SciPy ships no type information

GBENCH_ALPHA = 0.05
GBENCH_REPETITIONS = 9
NVBENCH_CLEAR_GAP = 0.005
ASV_P = 0.002
PYPERF_TAIL = 0.025


@dataclass(frozen=True, slots=True)
class Side:
    """One side's samples of each case in nanoseconds, and what the rules read from them, one number a case."""

    samples: tuple[Floats, ...]
    count: Floats
    mean: Floats
    variance: Floats
    median: Floats
    minimum: Floats

    @classmethod
    def of(cls, samples: Sequence[Floats]) -> Side:
        """At least two samples of each case."""
        return cls(
            samples=tuple(np.sort(each).astype(np.float64) for each in samples),
            count=np.array([len(each) for each in samples], dtype=np.float64),
            mean=np.array([each.mean() for each in samples]),
            variance=np.array([each.var(ddof=1) for each in samples]),
            median=np.array([np.median(each) for each in samples]),
            minimum=np.array([each.min() for each in samples]),
        )

    @property
    def relative_noise(self) -> Floats:
        """Standard deviation over mean."""
        noise: Floats = np.sqrt(self.variance) / self.mean
        return noise


Flags = np.typing.NDArray[np.bool_]
"""One a case: flagged slower."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by the name of its tool and setting; ``many_processes`` where the tool pools several of a side."""

    name: str
    flags: Callable[[Side, Side], Flags]
    many_processes: bool = False


def pytest_benchmark_mean(base: Side, head: Side) -> Flags:
    """``--benchmark-compare-fail=mean:5%`` fails where the mean grew by more than 5 %.

    Source: pytest-benchmark 5.3.1, "Comparing past runs", and ``PercentageRegressionCheck``: the field's ratio,
    strictly above the threshold, no regard of noise.
    """
    return head.mean / base.mean > 1.05


def pytest_benchmark_median(base: Side, head: Side) -> Flags:
    """``median:5%``; see ``pytest_benchmark_mean``."""
    return head.median / base.median > 1.05


def pytest_benchmark_min(base: Side, head: Side) -> Flags:
    """``min:2%``; see ``pytest_benchmark_mean``, whose documentation takes ``min`` for its example."""
    return head.minimum / base.minimum > 1.02


def google_benchmark(base: Side, head: Side) -> Flags:
    """``compare.py`` marks a two-sided Mann-Whitney U test below ``--alpha`` 0.05, on 9 repetitions or more.

    Source: google/benchmark docs/tools.md and tools/gbench/report.py (``calc_utest``, UTEST_OPTIMAL_REPETITIONS). A
    repetition is a sample here. It marks either direction; slower is where the median grew.
    """
    enough = np.minimum(base.count, head.count) >= GBENCH_REPETITIONS
    with np.errstate(invalid="ignore"):  # samples that are all alike have no p, and are not marked
        p_values = [
            stats.mannwhitneyu(*both, alternative="two-sided").pvalue
            for both in zip(base.samples, head.samples, strict=True)
        ]
    return enough & (np.array(p_values) < GBENCH_ALPHA) & (head.median > base.median)


def nvbench_legacy(base: Side, head: Side) -> Flags:
    """``nvbench_compare.py`` until 2026: SLOW where the means differ by more than the smaller of both sides' noise.

    Source: NVIDIA/nvbench issue 316 and python/scripts/nvbench_compare_legacy.py; noise is the relative standard
    deviation of the samples.
    """
    return head.mean / base.mean - 1 > np.minimum(base.relative_noise, head.relative_noise)


def nvbench_robust(base: Side, head: Side) -> Flags:
    """``nvbench_compare_robust.py``, its default preset: head's least time clears base's third quartile by .5 %.

    Source: NVIDIA/nvbench python/scripts/nvbench_compare_robust.py (``compare_intervals_for_clear_gap``, nearest-rank
    quartiles). The tool asks the SM clock to confirm it, which these samples do not carry: it flags no more than this.
    """
    upper = np.array([each[(75 * (len(each) - 1) + 50) // 100] for each in base.samples])
    flagged: Flags = head.minimum / upper - 1 >= NVBENCH_CLEAR_GAP
    return flagged


def asv(base: Side, head: Side, factor: float) -> Flags:
    """``asv compare --factor``: the median grew beyond the factor, and a Mann-Whitney U test has p below 0.002.

    Source: airspeed-velocity/asv commands/compare.py (``_is_result_better``) and ``is_different`` of asv_runner's
    statistics. The default factor is 1.1. Ties are broken the least significant way, as there; p is the normal
    approximation throughout, where asv counts exactly up to 20 samples.
    """
    p_values = [_conservative_u_test(*both) for both in zip(base.samples, head.samples, strict=True)]
    return (np.array(p_values) < ASV_P) & (base.median < head.median / factor)


def asv_default(base: Side, head: Side) -> Flags:
    """With the default factor."""
    return asv(base, head, 1.1)


def asv_five_percent(base: Side, head: Side) -> Flags:
    """With ``--factor 1.05``."""
    return asv(base, head, 1.05)


def pyperf(base: Side, head: Side) -> Flags:
    """``pyperf compare_to``: Student's two-sided t-test of equal variances at 95 %; slower is where the mean grew.

    Source: psf/pyperf doc/analyze.rst and ``is_significant`` of pyperf/_utils.py. pyperf runs 20 processes by default
    and pools their values. Unequal counts, which pyperf refuses, take the textbook's form.
    """
    df = base.count + head.count - 2
    pooled = ((base.count - 1) * base.variance + (head.count - 1) * head.variance) / df
    error = np.sqrt(pooled * (1 / base.count + 1 / head.count))
    critical = np.array([upper_quantile(PYPERF_TAIL, each) for each in df])
    flagged: Flags = (head.mean > base.mean) & (head.mean - base.mean >= critical * error)
    return flagged


def _conservative_u_test(first: Floats, second: Floats) -> float:
    """Two-sided p of the U statistic nearest to what no difference would give, within what ties leave open.

    Both are sorted. Source: ``mann_whitney_u`` of asv_runner's statistics.
    """
    least = float(np.searchsorted(second, first, "left").sum())
    most = float(np.searchsorted(second, first, "right").sum())
    centre = len(first) * len(second) / 2
    nearest = min(max(centre, least), most)
    sd = math.sqrt(len(first) * len(second) * (len(first) + len(second) + 1) / 12)
    return float(2 * special.ndtr(-abs(nearest - centre) / sd))


RULES = (
    Rule("pytest-benchmark mean:5%", pytest_benchmark_mean),
    Rule("pytest-benchmark median:5%", pytest_benchmark_median),
    Rule("pytest-benchmark min:2%", pytest_benchmark_min),
    Rule("google-benchmark U test .05", google_benchmark, many_processes=True),
    Rule("nvbench legacy", nvbench_legacy),
    Rule("nvbench robust, no clock check", nvbench_robust),
    Rule("asv 1.1 (default) and U test .002", asv_default, many_processes=True),
    Rule("asv 1.05 and U test .002", asv_five_percent, many_processes=True),
    Rule("pyperf t test 95 %", pyperf, many_processes=True),
)
