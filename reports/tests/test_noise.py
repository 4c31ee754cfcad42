from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peakgate.reports.comparison import noise

RNG_SEED = 7


def test_the_prior_of_equal_cases_is_their_common_variance() -> None:
    """Cases drawn from one variance are pulled onto it."""
    rng = np.random.default_rng(RNG_SEED)
    variance = 1e-4 * rng.chisquare(4, 4000) / 4
    squeezed, squeezed_df = noise.squeeze(variance, np.full(4000, 4.0), np.zeros(4000))
    assert np.median(squeezed) == pytest.approx(1e-4, rel=0.1)
    assert squeezed.std() < 0.2 * variance.std()
    assert (squeezed_df > 30).all()


def test_the_prior_recovers_its_degrees_of_freedom() -> None:
    """Scaled inverse chi-square variances with 6 degrees of freedom are distinguished from equal ones."""
    rng = np.random.default_rng(RNG_SEED)
    true = 1e-4 * 6 / rng.chisquare(6, 4000)
    variance = true * rng.chisquare(4, 4000) / 4
    _, squeezed_df = noise.squeeze(variance, np.full(4000, 4.0), np.zeros(4000))
    assert squeezed_df[0] - 4 == pytest.approx(6, rel=0.25)


def test_the_prior_follows_duration() -> None:
    """Short kernels are not given the calm of long ones."""
    rng = np.random.default_rng(RNG_SEED)
    log_time = rng.uniform(1, 8, 500)
    true = np.exp(-8 - log_time)
    squeezed, _ = noise.squeeze(true * rng.chisquare(2, 500) / 2, np.full(500, 2.0), log_time)
    slope = np.polyfit(log_time, np.log(squeezed), 1)[0]
    assert slope == pytest.approx(-1, abs=0.15)


def test_two_cases_share_nothing_and_zero_variance_is_not_believed() -> None:
    squeezed, df = noise.squeeze(np.array([1e-4, 0.0]), np.array([3.0, 3.0]), np.zeros(2))
    assert squeezed.tolist() == [1e-4, noise.CASE_SD_FLOOR**2]
    assert df.tolist() == [3.0, 3.0]


def test_cases_without_repeats_stay_unknown() -> None:
    squeezed, df = noise.squeeze(np.array([np.nan, 1e-4, 1e-4, 1e-4]), np.array([0.0, 2.0, 2.0, 2.0]), np.zeros(4))
    assert math.isnan(squeezed[0])
    assert df[0] == 0


def test_no_repeats_are_no_session_noise() -> None:
    assert noise.session_noise(np.full((3, 2), np.nan), np.zeros(3), np.zeros(3)) is None


def test_what_moves_a_whole_session_is_told_apart_from_the_cases() -> None:
    rng = np.random.default_rng(RNG_SEED)
    times = 0.001 * rng.standard_normal((200, 10)) + 0.01 * rng.standard_normal(10)
    residuals = times - times.mean(axis=1, keepdims=True)
    spread = noise.session_noise(residuals, np.full(200, 9.0), np.zeros(200))
    assert spread is not None
    assert math.sqrt(np.median(spread.case)) == pytest.approx(0.001, rel=0.1)
    assert 0.004 < math.sqrt(spread.common) < 0.02


def test_with_few_cases_the_whole_spread_stays_with_each() -> None:
    residuals = np.array([[0.01, -0.01], [0.01, -0.01]])
    spread = noise.session_noise(residuals, np.ones(2), np.zeros(2))
    assert spread is not None
    assert spread.common == 0
    assert spread.case.tolist() == pytest.approx([2e-4, 2e-4])


def test_a_session_repeats_no_better_than_its_samples_allow() -> None:
    spread = noise.SessionNoise(np.array([1e-8]), np.array([5.0]), 0.0, 4.0)
    assert spread.standard_error(0, 1, 1, 1e-4) == pytest.approx(math.sqrt(2e-4))
    assert spread.degrees_of_freedom(0) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("time_us", "percent"), [(3.0, 13.9), (5.0, 8.3), (7.0, 4.6), (19.9, 4.6), (20.0, 3.0), (150.0, 3.0), (1e5, 3.0)]
)
def test_one_run_against_one_resolves_less_the_shorter_the_kernel(time_us: float, percent: float) -> None:
    assert 100 * math.expm1(noise.fixed_resolvable(time_us, 0.0)) == pytest.approx(percent, abs=0.05)


@pytest.mark.parametrize(("time_us", "percent"), [(3.0, 15.0), (12.0, 15.0), (20.0, 3.0), (150.0, 3.0)])
def test_a_short_call_of_a_library_is_trusted_less(time_us: float, percent: float) -> None:
    assert 100 * math.expm1(noise.fixed_resolvable(time_us, 0.0, library=True)) == pytest.approx(percent, abs=0.05)


def test_noisy_samples_widen_what_one_run_resolves_and_sessions_narrow_it() -> None:
    assert noise.fixed_resolvable(100.0, 0.02) == pytest.approx(0.08)
    assert noise.fixed_resolvable(100.0, 0.0, 2, 2) == pytest.approx(noise.fixed_resolvable(100.0, 0.0) / math.sqrt(2))


def test_quantile_and_tail_are_inverse() -> None:
    assert noise.tail_probability(noise.upper_quantile(0.003, 7.5), 7.5) == pytest.approx(0.003)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_holm_adjusts_upwards_in_order_and_never_beyond_bonferroni(values: list[float]) -> None:
    p_values = np.array(values)
    adjusted = noise.holm(p_values)
    assert (adjusted >= p_values).all()
    assert (adjusted <= np.minimum(1, len(values) * p_values) + 1e-12).all()
    assert (np.diff(adjusted[np.argsort(p_values, kind="stable")]) >= 0).all()


def test_holm_agrees_with_a_worked_example() -> None:
    assert noise.holm(np.array([0.01, 0.04, 0.03, 0.005])).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
