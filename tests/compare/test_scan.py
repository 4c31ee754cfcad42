"""The numbers behind change points, each against its formula written out, or against what was planted."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peakgate.compare.history import common, levels, steps
from peakgate.compare.history.levels import Series
from peakgate.compare.history.newest import Newest, newest_step, shares
from peakgate.compare.history.steps import Levels
from peakgate.compare.noise import Bools, Floats

CASES, SESSIONS = 30, 40
SD = 0.003


def noisy(seed: int = 1, cases: int = CASES, sessions: int = SESSIONS) -> Floats:
    found: Floats = SD * np.random.default_rng(seed).standard_normal((cases, sessions))
    return found


def autoregressive(correlation: float, seed: int, cases: int = CASES, sessions: int = SESSIONS) -> Floats:
    found = noisy(seed, cases, sessions)
    for session in range(1, sessions):
        new = math.sqrt(1 - correlation**2) * found[:, session]
        found[:, session] = correlation * found[:, session - 1] + new
    return found


def series(values: Floats, gpus: list[int] | None = None, known: Bools | None = None) -> Series:
    sessions = values.shape[1]
    return Series(
        values,
        np.array(gpus or [0] * sessions, dtype=np.intp),
        np.zeros((0, sessions), dtype=bool) if known is None else known,
    )


def searched(given: Series) -> list[Levels]:
    cases = levels.case_series(given)
    return [steps.find_steps(each, len(cases)) for each in cases if each]


def newest(given: Series) -> list[Newest | None]:
    found = searched(given)
    return [newest_step(each, found, share) for each, share in zip(found, shares(found), strict=True)]


def cuts(found: Levels) -> list[int]:
    return [each.column.start for each in found.changes]


def test_the_restricted_likelihood_is_that_of_a_regression_written_out() -> None:
    gpus = np.array([0, 1, 0, 0, 1, 1, 0, 1])
    column = (np.arange(8) >= 3).astype(float)
    made = levels.design(np.arange(8), series(np.zeros((1, 8)), gpus.tolist()))
    assert len(made.precision) == 2 * len(levels.CANDIDATES) - 1
    values = np.random.default_rng(0).standard_normal(8)
    correlation = levels.correlations(gpus, pooled=True)[4]
    levels_of = (gpus[:, None] == [0, 1]).astype(float)
    inverse = np.linalg.inv(correlation)

    def squares(design: Floats) -> float:
        fitted = design @ np.linalg.solve(design.T @ inverse @ design, design.T @ inverse @ values)
        return float((values - fitted) @ inverse @ (values - fitted))

    assert values @ made.precision[4] @ values == pytest.approx(squares(levels_of))
    gain = (made.columns[2] @ made.precision[4] @ values) ** 2 / made.gram[4, 2, 2]
    assert squares(levels_of) - gain == pytest.approx(squares(np.column_stack([levels_of, column])))
    determinants = np.linalg.det(correlation) * np.linalg.det(levels_of.T @ inverse @ levels_of)
    assert made.constant[4] == pytest.approx(-0.5 * math.log(determinants))
    assert made.df == 6


def test_the_information_on_a_step_is_that_of_two_means_of_each_gpu() -> None:
    gpus = np.array([0, 0, 0, 1, 1, 0, 1, 1, 1, 2])
    made = levels.design(np.arange(10), series(np.zeros((1, 10)), gpus.tolist()))
    assert made.gram[0, 3, 3] == pytest.approx(3 * 1 / 4 + 1 * 4 / 5)


def test_the_weights_tell_a_correlated_suite_from_an_independent_one() -> None:
    for correlation, likeliest in ((0.0, {0}), (0.8, {2, 3, 4, 5})):
        case = levels.case_series(series(autoregressive(correlation, 3)))[0]
        assert case is not None
        assert int(case.log_weights.argmax()) in likeliest
        assert np.exp(case.log_weights).sum() == pytest.approx(1)


@pytest.mark.parametrize("quieter", [0.01, 0.2])
def test_cases_quieter_than_the_least_noise_are_no_more_correlated(quieter: float) -> None:
    values = noisy(3)
    values[::2] *= quieter
    assert not any(each.is_correlated for each in searched(series(values)))


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.9])
def test_a_history_without_a_step_shows_none_however_correlated(correlation: float) -> None:
    for seed in range(3):
        given = series(autoregressive(correlation, seed))
        assert not any(each.changes for each in searched(given))
        assert not any(newest(given))


def test_a_tenth_of_correlated_cases_shows_no_step_and_hides_none() -> None:
    values = noisy()
    values[:3] = autoregressive(0.8, 5)[:3]
    values[7, 25:] += 0.02
    found = searched(series(values))
    assert [row for row, each in enumerate(found) if each.changes] == [7]
    assert cuts(found[7]) == [25]


@settings(max_examples=10, deadline=None)
@given(st.integers(5, 35), st.floats(0.02, 0.5), st.sampled_from([-1, 1]), st.integers(0, 100))
def test_a_clear_step_is_found_in_its_place_with_its_size(place: int, size: float, up: int, seed: int) -> None:
    values = noisy(seed, cases=4)
    values[2, place:] += up * size
    (change,) = searched(series(values))[2].changes
    assert change.good < place <= change.bad
    assert abs(change.shift - up * size) < change.high - change.low < 12 * SD


def test_one_case_alone_shows_a_step_that_is_half_of_its_history() -> None:
    values = noisy(cases=1, sessions=14)
    values[0, 8:] += 0.15
    assert cuts(searched(series(values))[0]) == [8]


def test_a_step_that_is_undone_is_two() -> None:
    values = noisy()
    values[3, 12:22] += 0.02
    assert cuts(searched(series(values))[3]) == [12, 22]


def test_slow_change_is_one_and_no_steps() -> None:
    values = noisy(sessions=80)
    values[3] += np.linspace(0, 0.05, 80)
    (change,) = searched(series(values))[3].changes
    assert change.column.is_slow
    assert change.shift == pytest.approx(0.05, abs=0.01)


def test_a_known_change_is_one_column_on_all_gpus_that_make_it_in_turn() -> None:
    gpus = [number % 2 for number in range(60)]
    known = np.array([[number >= (20 if gpu else 34) for number, gpu in enumerate(gpus)]])
    values = noisy(sessions=60) + 0.1 * np.array(gpus)
    values[3] += 0.02 * known[0]
    found = searched(series(values, gpus, known))
    (change,) = found[3].changes
    assert (change.column.known, len(found[3].chosen)) == (0, 1)
    assert change.shift == pytest.approx(0.02, abs=0.005)


@pytest.mark.parametrize("at", [[20], [5, 19, 33], [3, 4, 11, 12, 25]])
def test_a_few_odd_sessions_make_no_step(at: list[int]) -> None:
    values = noisy()
    values[3, at] += 0.1
    assert not any(each.changes for each in searched(series(values)))


def test_hampels_filter_leaves_steps_and_takes_in_odd_sessions() -> None:
    values = noisy(cases=2)
    values[0, 20:] += 0.1
    values[1, 20] += 0.1
    filtered, reach = levels.hampel(values, np.zeros(SESSIONS, dtype=np.intp))
    assert np.abs(filtered[0] - values[0]).max() < SD
    assert abs(filtered[1, 20]) <= reach[1] + 2 * SD
    many = noisy(cases=1)
    many[0, ::3] += 0.1  # a third of the sessions is no few odd ones
    assert np.abs(levels.hampel(many, np.zeros(SESSIONS, dtype=np.intp))[0] - many).max() < 1e-9


def test_running_medians_pass_over_what_is_missing() -> None:
    values = np.array([[1.0, np.nan, 2.0, 3.0, 100.0]])
    assert levels.running_median(values)[0, [0, 2, 3, 4]].tolist() == [2.5] * 4


@pytest.mark.parametrize(("size", "age"), [(0.05, 1), (0.05, 2), (0.02, 3), (0.05, 4)])
def test_a_young_step_is_seen_beside_a_case_that_is_all_noise_and_one_odd_session(size: float, age: int) -> None:
    values = noisy()
    values[0] = 0.036 * np.random.default_rng(4).standard_normal(SESSIONS)
    values[1, 12] += 0.3
    values[7, -age:] += size
    found = newest(series(values))
    assert [row for row, each in enumerate(found) if each] == [7]
    assert found[7] is not None
    assert found[7].sessions == age
    assert found[7].log_ratio == pytest.approx(size, abs=3 * SD)


def test_a_case_that_was_as_odd_before_shows_no_young_step() -> None:
    values = noisy()
    values[7, [12, -1]] += 0.05
    assert not any(newest(series(values)))


def test_of_newest_sessions_that_disagree_there_is_no_young_step() -> None:
    values = noisy()
    values[7, -3:] += [0.05, 0.0, 0.05]
    assert newest(series(values))[7] is None or newest(series(values))[7].sessions == 1  # type: ignore[union-attr]


def test_sessions_too_few_or_of_as_many_gpus_are_not_searched() -> None:
    assert levels.case_series(series(noisy(cases=1, sessions=7))) == [None]
    assert levels.case_series(series(noisy(cases=1, sessions=20), list(range(20)))) == [None]


def together(log_time: Floats) -> common.Shared:
    sessions = log_time.shape[1]
    gpus, known = np.zeros(sessions, dtype=np.intp), np.zeros((0, sessions), dtype=bool)
    return common.shared(log_time, gpus, known, pd.DataFrame(np.full(log_time.shape, None)))


TIMES = np.linspace(1.5, 8, CASES)[:, None]


def test_what_every_launch_takes_longer_is_told_from_a_share_of_the_time() -> None:
    added = np.zeros(SESSIONS)
    added[20:] = 0.6
    found = together(np.log(np.exp(TIMES + noisy()) + added) + 0.01 * np.sin(np.arange(SESSIONS)))
    assert found.launch is not None
    (change,) = found.launch.changes
    assert change.column.start == 20
    assert change.shift == pytest.approx(0.6, abs=0.05)
    assert found.share - found.share.mean() == pytest.approx(0.01 * np.sin(np.arange(SESSIONS)), abs=0.004)
    assert found.events.tolist() == [(np.arange(SESSIONS) >= 20).tolist()]


def test_a_host_that_stays_for_six_sessions_is_found_whichever_gpus_those_are_of() -> None:
    random = np.random.default_rng(5)
    gpus = random.integers(0, 8, 60)
    levels_of = 0.05 * random.standard_normal((CASES, 8))[:, gpus]
    added = np.where((np.arange(60) >= 30) & (np.arange(60) < 36), 0.4, 0.0)
    log_time = np.log(np.exp(TIMES + noisy(5, sessions=60) + levels_of) + added)
    codes = pd.DataFrame(np.full(log_time.shape, None))
    found = common.shared(log_time, gpus, np.zeros((0, 60), dtype=bool), codes)
    assert found.events.argmax(axis=1).tolist() == [30, 36]


def test_nothing_is_taken_out_of_cases_that_have_nothing_in_common() -> None:
    assert np.abs(together(TIMES + noisy()).removed).max() < 0.2 * SD
    few = TIMES + noisy()
    few[:4, 15:] += 0.06  # the shortest kernels of one change
    assert np.abs(together(few).removed).max() < 0.01


def test_too_few_cases_have_nothing_in_common() -> None:
    assert together(TIMES[:9] + noisy(cases=9)).suite is None


def test_a_step_on_a_gpu_with_one_earlier_session_is_seen() -> None:
    gpus = [*range(1, 8)] * 5 + [0, *range(1, 5), 0]
    values = noisy(2, sessions=len(gpus))
    values[4, -1] += 0.05
    found = newest(series(values, gpus))
    assert found[4] is not None
    assert found[4].sessions == 1
    assert sum(each is not None for each in found) == 1


def test_the_sd_of_earlier_sessions_is_that_without_a_step() -> None:
    values = noisy(2)
    before = [each.earlier_sd for each in searched(series(values))]
    values[4, -3:] += 0.05
    stepped = searched(series(values))[4]
    assert stepped.earlier_sd == pytest.approx(before[4], rel=0.2)


def test_the_shares_sum_to_1_and_favour_cases_that_they_decide() -> None:
    values = noisy(cases=60)
    values[:3] *= 0.1
    values[3:6] *= 1.9
    values[6:9] *= 20
    found = shares(searched(series(values)))
    assert found.sum() == pytest.approx(1)
    assert found[3:6].min() > 2 * found[:3].max()
    assert found[6:9] == pytest.approx(found[:3])
    assert shares([]).size == 0


def test_a_slow_change_of_one_case_may_be_a_drift() -> None:
    for slope, expected in ((0.0, False), (-0.03, False), (0.03, True)):
        values = 2 * noisy(5, cases=1, sessions=60) + slope * np.linspace(0, 1, 60)
        found = searched(series(values))[0]
        assert found.may_drift is expected or found.changes
