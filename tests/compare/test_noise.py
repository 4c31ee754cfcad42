from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special  # type: ignore[import-untyped]  # SciPy ships no type information

from peakgate.compare import noise
from peakgate.compare.noise import Floats

RNG_SEED = 7


def smyth(variance: Floats, df: Floats, log_time: Floats, *, trend: bool) -> tuple[Floats, float]:
    """The prior of Smyth (2004), section 6.2, step by step: the variance of each case and its degrees of freedom."""
    centred = np.log(variance) - special.digamma(df / 2) + np.log(df / 2)
    columns = np.column_stack([np.ones(len(df)), log_time] if trend else [np.ones(len(df))])
    fitted = columns @ np.linalg.lstsq(columns, centred, rcond=None)[0]
    scatter = ((centred - fitted) ** 2).sum() / (len(df) - columns.shape[1])
    excess = scatter - special.polygamma(1, df / 2).mean()
    prior_df = 2 * optimize.brentq(lambda half: special.polygamma(1, half) - excess, 1e-3, 1e4, xtol=1e-13)
    return np.exp(fitted + special.digamma(prior_df / 2) - np.log(prior_df / 2)), prior_df


SCATTERED = np.array([4.0, 0.02, 9.0, 0.5, 30.0, 0.1, 2.0, 0.004, 12.0, 1.0, 0.3, 70.0]) * 1e-4
DF = np.array([2.0, 3.0, 4.0, 2.0, 5.0, 3.0, 2.0, 4.0, 3.0, 2.0, 6.0, 2.0])
LOG_TIME = np.array([1.0, 2.5, 3.0, 4.5, 2.0, 6.0, 5.5, 7.0, 1.5, 3.5, 8.0, 0.5])


@pytest.mark.parametrize(
    ("cases", "log_time", "trend"),
    [
        (12, LOG_TIME, True),
        (12, LOG_TIME / 10, True),
        (11, LOG_TIME, False),
        (3, LOG_TIME, False),
        (12, np.full(12, 3.0), False),
    ],
)
def test_the_prior_is_smyths_with_a_trend_where_there_are_cases_enough_of_several_durations(
    cases: int, log_time: Floats, trend: bool
) -> None:
    variance, df, log_time = SCATTERED[:cases], DF[:cases], log_time[:cases]
    prior, prior_df = smyth(variance, df, log_time, trend=trend)
    squeezed, squeezed_df = noise.squeeze(variance, df, log_time)
    assert squeezed_df == pytest.approx(prior_df + df, rel=1e-9)
    assert squeezed == pytest.approx((prior_df * prior + df * variance) / (prior_df + df), rel=1e-9)


def test_variances_no_further_apart_than_luck_allows_have_the_most_degrees_of_freedom() -> None:
    squeezed, df = noise.squeeze(np.array([1.0, 1.1, 0.9]) * 1e-4, np.full(3, 4.0), np.zeros(3))
    assert df.tolist() == [1004.0] * 3
    most = 1000.0 / 2
    logs = np.log(np.array([1.0, 1.1, 0.9]) * 1e-4) - special.digamma(2) + np.log(2)
    prior = math.exp(logs.mean() + special.digamma(most) - math.log(most))
    assert squeezed == pytest.approx((1000.0 * prior + 4 * np.array([1.0, 1.1, 0.9]) * 1e-4) / 1004.0, rel=1e-12)


def test_a_variance_of_zero_counts_as_a_ten_thousandth_of_the_typical_one() -> None:
    variance, cut = SCATTERED[:11].copy(), SCATTERED[:11].copy()
    variance[3] = 0.0
    cut[3] = 1e-4 * np.median(variance)
    prior, prior_df = smyth(cut, DF[:11], LOG_TIME[:11], trend=False)
    squeezed, _ = noise.squeeze(variance, DF[:11], LOG_TIME[:11])
    assert squeezed[3] == pytest.approx(max(prior_df * prior[3] / (prior_df + DF[3]), noise.CASE_SD_FLOOR**2))
    assert squeezed[0] == pytest.approx((prior_df * prior[0] + DF[0] * variance[0]) / (prior_df + DF[0]), rel=1e-9)


def test_where_most_cases_repeat_exactly_nothing_is_shared() -> None:
    variance = np.array([0.0, 0.0, 4e-4])
    squeezed, df = noise.squeeze(variance, np.full(3, 2.0), np.zeros(3))
    assert squeezed.tolist() == [0.0005**2] * 2 + [4e-4]
    assert df.tolist() == [2.0] * 3


def test_the_common_part_is_the_median_over_cases_with_a_prior_of_four_degrees_of_freedom() -> None:
    rng = np.random.default_rng(RNG_SEED)
    residuals = rng.normal(0, 0.004, (12, 5))
    residuals[11] = np.nan  # never repeated
    residuals[:, 2] = np.nan  # a session that no case repeats
    residuals[11, 2] = 0.3
    residuals[4, 0] = np.nan
    df = np.array([3.0] * 10 + [1.0, 0.0])
    log_time = np.linspace(1, 5, 12)
    spread = noise.session_noise(residuals, df, log_time)
    assert spread is not None
    used = residuals[:11, [0, 1, 3, 4]]
    together = np.nanmedian(used, axis=0)
    assert spread.common_df == 4.0 + 3.0
    assert spread.common == pytest.approx((4 * 0.0015**2 + (together**2).sum()) / 7, rel=1e-12)
    variance = np.nansum((used - together) ** 2, axis=1) / df[:11]
    expected, expected_df = noise.squeeze(np.append(variance, np.nan), df, log_time)
    assert spread.case == pytest.approx(expected, rel=1e-12, nan_ok=True)
    assert spread.case_df == pytest.approx(expected_df)
    assert spread.case_df[11] == 0


def test_nine_cases_have_no_common_part_and_ten_have() -> None:
    residuals = np.tile([0.01, -0.01], (10, 1))
    nine, ten = (noise.session_noise(residuals[:cases], np.ones(cases), np.zeros(cases)) for cases in (9, 10))
    assert nine is not None
    assert ten is not None
    assert (nine.common, nine.common_df) == (0.0, 4.0)
    assert ten.common == pytest.approx((4 * 0.0015**2 + 2e-4) / 5)


def test_degrees_of_freedom_of_two_variances_are_welchs_and_satterthwaites() -> None:
    spread = noise.SessionNoise(np.array([9e-6]), np.array([5.0]), 4e-6, 7.0)
    assert spread.df[0] == pytest.approx(13.0**2 / (9.0**2 / 5 + 4.0**2 / 7))
    assert spread.standard_error(np.array([1 / 2 + 1 / 3]), np.zeros(1))[0] == pytest.approx(
        math.sqrt(13e-6 * (1 / 2 + 1 / 3))
    )


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


def resolvable(time_us: float, error: float = 0.0, *, per_session: float = 2.0, library: bool = False) -> float:
    times, errors, libraries = np.array([time_us]), np.array([error]), np.array([library])
    return float(noise.fixed_resolvable(times, errors, per_session, libraries)[0])


@pytest.mark.parametrize(
    ("time_us", "percent"), [(3.0, 13.0), (9.0, 13.0), (12.0, 10.5), (24.0, 5.1), (35.0, 3.5), (150.0, 3.5), (1e5, 3.5)]
)
def test_one_run_against_one_resolves_less_the_shorter_the_kernel(time_us: float, percent: float) -> None:
    assert 100 * math.expm1(resolvable(time_us)) == pytest.approx(percent, abs=0.05)


@pytest.mark.parametrize(("time_us", "percent"), [(3.0, 15.0), (12.0, 15.0), (20.0, 6.2), (150.0, 3.5)])
def test_a_short_call_of_a_library_is_trusted_less(time_us: float, percent: float) -> None:
    assert 100 * math.expm1(resolvable(time_us, library=True)) == pytest.approx(percent, abs=0.05)


def test_noisy_samples_widen_what_one_run_resolves_and_sessions_narrow_it() -> None:
    assert resolvable(100.0, 0.02) == pytest.approx(0.08)
    assert resolvable(100.0, per_session=1 / 2 + 1 / 2) == pytest.approx(resolvable(100.0) / math.sqrt(2))


@pytest.mark.parametrize(("time_us", "percent"), [(3.0, 13.0), (24.0, 5.1), (150.0, 1.5)])
def test_one_odd_session_may_move_a_single_run_by_so_much_and_a_mean_by_its_share(
    time_us: float, percent: float
) -> None:
    alone, one_of_four = noise.odd_session(np.full(2, time_us), np.array([1.0, 4.0])).tolist()
    assert 100 * math.expm1(alone) == pytest.approx(percent, abs=0.05)
    assert one_of_four == pytest.approx(alone / 4)


def test_a_standard_deviation_is_surely_no_less_than_its_confidence_bound() -> None:
    rng = np.random.default_rng(RNG_SEED)
    sds = rng.standard_normal((4000, 6)).std(axis=1, ddof=1)
    assert (noise.surely(sds, np.full(4000, 5.0)) > 1).mean() == pytest.approx(0.05, abs=0.015)


def test_quantile_and_tail_are_inverse() -> None:
    assert noise.upper_tail(noise.upper_quantile(0.003, 7.5), 7.5) == pytest.approx(0.003)
    assert noise.upper_tail(-2.0, 7.5) == pytest.approx(1 - noise.upper_tail(2.0, 7.5))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_holm_adjusts_upwards_in_order_and_never_beyond_bonferroni(values: list[float]) -> None:
    p_values = np.array(values)
    adjusted = noise.holm(p_values)
    assert (adjusted >= p_values).all()
    assert (adjusted <= np.minimum(1, len(values) * p_values) + 1e-12).all()
    assert (np.diff(adjusted[np.argsort(p_values, kind="stable")]) >= 0).all()


def test_holm_agrees_with_a_worked_example() -> None:
    assert noise.holm(np.array([0.01, 0.04, 0.03, 0.005])).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
