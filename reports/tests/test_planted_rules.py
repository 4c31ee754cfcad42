from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.planted import rules
from peakgate.reports.planted.rules import RULES, Rule, Side
from scipy import stats  # type: ignore[import-untyped]

SAMPLES_NS = 40
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def normal(mean_ns: float = 150_000, sd: float = 0.003, samples: int = SAMPLES_NS, seed: int = 1) -> Floats:
    """Samples in whole nanoseconds with a relative spread."""
    return np.rint(mean_ns * np.random.default_rng(seed).normal(1, sd, samples))


def flags(rule: Rule, base: Sequence[Floats], head: Sequence[Floats]) -> list[bool]:
    found: list[bool] = rule.flags(Side.of(base), Side.of(head)).tolist()
    return found


@EACH
def test_every_rule_flags_the_case_that_doubled_and_no_other(rule: Rule) -> None:
    base = [normal(seed=seed) for seed in range(4)]
    assert flags(rule, base, [base[0], 2 * base[1], base[2] / 2, base[3]]) == [False, True, False, False]


@EACH
def test_samples_that_are_all_alike_are_flagged_by_none(rule: Rule) -> None:
    assert flags(rule, [np.full(12, 5000.0)], [np.full(12, 5000.0)]) == [False]


@EACH
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), scale=st.floats(0.1, 100.0))
def test_no_rule_flags_both_ways_or_minds_the_unit(rule: Rule, seed: int, scale: float) -> None:
    one, other = (np.random.default_rng((seed, side)).normal(150_000, 2000, (3, 15)) for side in (0, 1))
    there, back = flags(rule, list(one), list(other)), flags(rule, list(other), list(one))
    assert not any(forth and reverse for forth, reverse in zip(there, back, strict=True))
    assert flags(rule, list(scale * one), list(scale * other)) == there


def by_name(part: str) -> Rule:
    return next(rule for rule in RULES if part in rule.name)


@pytest.mark.parametrize(
    ("part", "factor", "flagged"),
    [("mean:5%", 1.05, False), ("mean:5%", 1.0501, True), ("median:5%", 1.0501, True), ("min:2%", 1.021, True)],
)
def test_a_percentage_is_exceeded_not_reached(part: str, factor: float, flagged: bool) -> None:
    base = np.full(12, 100_000.0)
    assert flags(by_name(part), [base], [base * factor]) == [flagged]


def test_the_least_time_alone_moves_the_rule_on_least_times() -> None:
    base = normal()
    head = np.append(base, base.min() * 0.95)
    assert flags(by_name("min:2%"), [head], [base]) == [True]
    assert flags(by_name("median:5%"), [head], [base]) == [False]


@pytest.mark.parametrize(("samples", "flagged"), [(8, False), (9, True)])
def test_the_u_test_wants_nine_repetitions(samples: int, flagged: bool) -> None:
    base = normal(samples=samples)
    assert flags(by_name("google"), [base], [base * 1.5]) == [flagged]


def test_nvbench_compares_the_means_with_the_quieter_side() -> None:
    quiet, loud = normal(sd=0.002, seed=1), normal(mean_ns=151_500, sd=0.05, seed=2)
    loud = loud * (1.01 * quiet.mean() / loud.mean())
    assert flags(by_name("legacy"), [quiet], [loud]) == [True]
    assert flags(by_name("legacy"), [normal(sd=0.05)], [normal(sd=0.05) * 1.01]) == [False]


def test_nvbench_robust_wants_a_gap_above_the_third_quartile() -> None:
    base = np.arange(100_000.0, 100_041.0)
    upper = base[30]
    assert flags(by_name("robust"), [base], [np.linspace(upper * 1.0049, 110_000, 41)]) == [False]
    assert flags(by_name("robust"), [base], [np.linspace(upper * 1.0051, 110_000, 41)]) == [True]


def test_asv_wants_both_its_factor_and_its_test() -> None:
    base = normal(sd=0.001)
    assert flags(by_name("asv 1.05"), [base], [base * 1.06]) == [True]
    assert flags(by_name("asv 1.1 "), [base], [base * 1.06]) == [False]
    assert flags(by_name("asv 1.05"), [base], [base * 1.04]) == [False]
    wild = normal(sd=0.5, samples=6)
    assert flags(by_name("asv 1.05"), [wild], [wild * 1.1]) == [False]


@given(st.integers(0, 1000), st.integers(5, 60), st.integers(5, 60))
def test_the_conservative_test_is_the_ordinary_one_without_ties_and_milder_with(
    seed: int, first: int, second: int
) -> None:
    lot = np.random.default_rng(seed)
    one, other = np.sort(lot.normal(0, 1, first)), np.sort(lot.normal(0.5, 1, second))
    expected = stats.mannwhitneyu(one, other, method="asymptotic", use_continuity=False).pvalue
    assert rules._conservative_u_test(one, other) == pytest.approx(expected)
    tied, ties = np.round(one), np.round(other)
    broken = np.sort(tied + 1e-6 * lot.permutation(first)), np.sort(ties + 1e-6 * lot.permutation(second))
    some_order = stats.mannwhitneyu(*broken, method="asymptotic", use_continuity=False).pvalue
    assert rules._conservative_u_test(tied, ties) >= some_order - 1e-12


@given(st.integers(0, 1000), st.integers(3, 40), st.integers(3, 40))
def test_pyperf_is_students_test(seed: int, first: int, second: int) -> None:
    lot = np.random.default_rng(seed)
    one, other = lot.normal(100, 1, first), lot.normal(100.7, 1, second)
    expected = stats.ttest_ind(one, other).pvalue < 0.05 and other.mean() > one.mean()
    assert flags(by_name("pyperf"), [one], [other]) == [expected]


def test_samples_of_one_process_are_no_replicates_to_tests_that_pool_them() -> None:
    """Two processes of unchanged code that differ by 0.2 %, as processes do: tests on samples call it a change."""
    one, other = normal(sd=0.001, seed=1), normal(mean_ns=150_300, sd=0.001, seed=2)
    assert flags(by_name("google"), [one], [other]) == [True]
    assert flags(by_name("pyperf"), [one], [other]) == [True]
    assert flags(by_name("mean:5%"), [one], [other]) == [False]
