"""What one look decides about the suspects, on estimates made by hand: Holm's steps, futility, what would be found."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats  # type: ignore[import-untyped]  # SciPy ships no type information

from peakgate.compare import noise
from peakgate.compare.ab import decide as decide_module
from peakgate.compare.ab.decide import (
    HOPELESS_PAIRS,
    INTERVAL_TAIL,
    LEANING_P,
    RULED_OUT_P,
    SMALLEST_PAIRS_SHIFT,
    TO_BE_FOUND,
    CaseStatus,
    _look,
    _pooled,
    _resolvable,
    _settled,
    decide,
    estimates,
    half_width,
    interval,
    moved_together,
    p_value,
    spread,
    suspects,
)
from peakgate.compare.ab.schedule import PAIRS_ALPHA, Look, looks

MANY = 1e9
"""Degrees of freedom at which Student's t is the normal distribution."""

LOOK = Look(8, PAIRS_ALPHA / 4, final=False)
LAST = Look(20, PAIRS_ALPHA / 2, final=True)
ESTIMATE = ["pairs", "log_ratio", "mean_log_ratio", "standard_error", "df", "interval_tail"]


def measured(pairs: int, shift: float, mean: float, error: float, df: float, *, direction: int = 1) -> pd.DataFrame:
    """An estimate of one case, suspected in this direction."""
    row = (pairs, shift, mean, error, df, INTERVAL_TAIL)
    return pd.DataFrame([row], columns=ESTIMATE).assign(direction=float(direction))


def estimate(p: float, shift: float = 0.01, pairs: int = 8, df: float = MANY) -> pd.DataFrame:
    """A shift that is this far in the tail in its own direction."""
    error = abs(shift / float(stats.t.isf(p, df)))
    return measured(pairs, shift, shift, error, df, direction=1 if shift > 0 else -1)


def at_look(*cases: pd.DataFrame, look: Look = LOOK, count: int | None = None) -> list[SimpleNamespace]:
    found = _look(pd.concat(cases, ignore_index=True), look, len(cases) if count is None else count)
    return [SimpleNamespace(**{str(name): value for name, value in row.items()}) for row in found.to_dict("records")]


def looked(*p_values: float, look: Look = LOOK, shift: float = 0.01) -> list[tuple[str, float]]:
    return [(each.status, each.p_value) for each in at_look(*(estimate(p, shift) for p in p_values), look=look)]


def test_a_p_value_is_the_tail_of_the_mean_over_its_error_on_the_suspected_side() -> None:
    one = measured(5, 0.02, 0.01, 0.005, 6.0)
    assert p_value(one, 1).item() == pytest.approx(stats.t.sf(2.0, 6.0))
    assert p_value(one, -1).item() == pytest.approx(stats.t.cdf(2.0, 6.0))
    still = measured(5, 0.0, 0.0, 0.005, 6.0)
    assert p_value(still, 1).item() == p_value(still, -1).item() == pytest.approx(0.5)


def test_the_interval_leaves_half_a_percent_on_either_side_of_the_shift() -> None:
    half = 0.005 * float(stats.t.isf(0.005, 6.0))
    one = SimpleNamespace(log_ratio=0.02, standard_error=0.005, df=6.0, interval_tail=INTERVAL_TAIL)
    assert interval(one) == pytest.approx((0.02 - half, 0.02 + half))


def test_the_interval_at_a_look_leaves_the_look_s_share_of_what_all_looks_leave() -> None:
    for look in (LOOK, LAST):
        (found,) = at_look(estimate(1e-9), look=look)
        assert found.interval_tail == pytest.approx(0.005 * look.alpha / PAIRS_ALPHA)
        assert found.log_ratio == 0.01
    assert sum(0.005 * look.alpha / PAIRS_ALPHA for look in looks(20)) == pytest.approx(0.005)


def test_each_suspect_flagged_leaves_fewer_for_the_rest_and_the_surest_comes_first_whatever_its_row() -> None:
    share = LOOK.alpha
    # Of three: between share / 2 and share, below share / 3, and between share / 3 and share / 2.
    found = looked(0.8 * share, 0.2 * share, 0.4 * share)
    assert [status for status, _ in found] == [CaseStatus.FLAGGED] * 3
    expected = [0.8 * 1 * PAIRS_ALPHA, 0.2 * 3 * PAIRS_ALPHA, 0.4 * 2 * PAIRS_ALPHA]
    assert [p for _, p in found] == pytest.approx(expected)


def test_behind_one_that_is_not_flagged_none_is_and_adjusted_p_values_never_fall_nor_pass_one() -> None:
    share = LOOK.alpha
    first, second = looked(0.6 * share, 0.7 * share)
    assert [first[0], second[0]] == [CaseStatus.OPEN] * 2
    assert [first[1], second[1]] == pytest.approx([1.2 * PAIRS_ALPHA, 1.4 * PAIRS_ALPHA])
    first, second, last = looked(0.30 * share, 0.34 * share, 0.45)
    assert first[1] == pytest.approx(0.9 * PAIRS_ALPHA)
    assert second[1] == first[1]  # 0.68 of ALPHA by itself
    assert last[1] == 1.0


def test_a_p_value_of_exactly_alpha_and_a_shift_of_exactly_the_smallest_are_not_flagged() -> None:
    assert looked(LOOK.alpha * 1.0000001)[0][0] == CaseStatus.OPEN
    edge = estimate(0.001)
    exactly = Look(8, p_value(edge, 1).item(), final=False)
    assert at_look(edge, look=exactly)[0].status == CaseStatus.OPEN
    assert looked(LOOK.alpha * 0.9999)[0][0] == CaseStatus.FLAGGED
    assert looked(1e-9, shift=SMALLEST_PAIRS_SHIFT)[0][0] != CaseStatus.FLAGGED
    for sign in (1, -1):
        assert looked(1e-9, shift=sign * SMALLEST_PAIRS_SHIFT * 1.0001)[0][0] == CaseStatus.FLAGGED


def test_what_a_look_would_have_found_depends_on_how_many_are_left() -> None:
    share = LOOK.alpha
    sure, leaning = estimate(0.1 * share), estimate(0.9 * share)
    found = at_look(sure, leaning, estimate(0.3))
    for each, case in zip(found, (sure, leaning), strict=False):
        assert each.resolvable == pytest.approx(max(SMALLEST_PAIRS_SHIFT, half_width(case, share / 2).item()))
    assert at_look(sure)[0].resolvable == pytest.approx(half_width(sure, share).item())
    assert at_look(measured(8, 0.01, 0.01, 1e-6, MANY))[0].resolvable == SMALLEST_PAIRS_SHIFT


def settled(shift: float, error: float, pairs: int = 4, *, final: bool = False) -> bool:
    return bool(_settled(measured(pairs, shift, shift, error, MANY), final=final).item())


def test_a_suspect_is_given_up_once_the_effect_that_is_looked_for_is_ruled_out() -> None:
    error = 0.001
    edge = TO_BE_FOUND - error * float(stats.norm.isf(0.001))
    assert settled(edge - 1e-7, error)
    assert not settled(edge + 1e-7, error)


def test_a_suspect_that_does_not_lean_its_way_is_given_up_after_enough_pairs_only() -> None:
    error = 0.05
    edge = error * float(stats.norm.isf(0.3))
    assert settled(edge - 1e-6, error, 10)
    assert not settled(edge + 1e-6, error, 10)
    assert not settled(edge - 1e-6, error, 9)


def test_a_suspect_on_the_very_edge_is_measured_further_unless_it_leans_no_farther(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edge = measured(HOPELESS_PAIRS, 0.01, 0.01, 0.02, 3.0)
    p, shift = p_value(edge, 1).item(), edge["log_ratio"].item()
    monkeypatch.setattr(decide_module, "HOPELESS_P", p)
    monkeypatch.setattr(decide_module, "TO_BE_FOUND", shift + half_width(edge, RULED_OUT_P).item())
    assert not _settled(edge, final=False).item()
    monkeypatch.setattr(decide_module, "LEANING_P", 1.0)
    assert not _settled(edge, final=True).item()
    monkeypatch.setattr(decide_module, "LEANING_P", p)
    assert _settled(edge, final=True).item()
    monkeypatch.setattr(decide_module, "LEANING_P", 1.0)
    monkeypatch.setattr(decide_module, "SMALLEST_PAIRS_SHIFT", shift)
    assert _settled(edge, final=True).item()


@pytest.mark.parametrize(
    ("p", "shift", "open_at_the_end"),
    [
        (LEANING_P * 0.99, 0.03, True),
        (LEANING_P * 1.01, 0.03, False),
        (LEANING_P * 0.99, SMALLEST_PAIRS_SHIFT * 1.01, True),
        (LEANING_P * 0.99, SMALLEST_PAIRS_SHIFT * 0.99, False),
    ],
)
def test_after_the_last_pair_only_a_suspect_that_leans_far_enough_stays_open(
    p: float, shift: float, open_at_the_end: bool
) -> None:
    # Few degrees of freedom, so that no interval rules anything out.
    leaning = estimate(p, shift, pairs=20, df=1.0)
    assert _settled(leaning, final=True).item() is not open_at_the_end
    expected = CaseStatus.OPEN if open_at_the_end else CaseStatus.CLEARED
    assert at_look(leaning, look=LAST, count=30)[0].status == expected
    assert at_look(leaning, count=30)[0].status == CaseStatus.OPEN


def test_two_estimates_of_a_variance_count_by_their_degrees_of_freedom() -> None:
    variance, df = _pooled(
        np.array([4.0, 4.0, 0.0]), np.array([3.0, 1.0, 0.0]), np.array([8.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0])
    )
    assert variance.tolist() == [5.0, 4.0, 0.0]
    assert df.tolist() == [4.0, 1.0, 0.0]


def test_two_pairs_have_a_variance_and_one_has_none() -> None:
    variance, df = spread(np.array([[1.0, math.nan, 2.0], [math.nan, 5.0, math.nan], [1.0, 2.0, 3.0]]))
    assert (variance.tolist(), df.tolist()) == ([0.5, 0.0, 1.0], [1.0, 0.0, 2.0])


def test_estimates_are_moderated_by_the_cases_beside_them() -> None:
    pairs = np.array([[0.01, 0.02, 0.04], [0.01, math.nan, math.nan], [0.0, 0.06, 0.0]])
    beside = np.array([1e-6, 9e-4, 3e-5]), np.array([9.0, 5.0, 7.0]), np.array([2.0, 3.0, 4.0])
    log_time = np.array([1.0, 2.0, 5.0])
    variance, df = spread(pairs)
    both = (np.concatenate(each) for each in zip((variance, df, log_time), beside, strict=True))
    moderated, moderated_df = noise.squeeze(*both)
    found = estimates(pairs, log_time, beside)
    assert found["standard_error"].to_list() == pytest.approx(
        [math.sqrt(moderated[0] / 3), math.nan, math.sqrt(moderated[2] / 3)], nan_ok=True
    )
    assert found["df"].to_list() == pytest.approx([moderated_df[0], math.nan, moderated_df[2]], nan_ok=True)
    assert found["pairs"].to_list() == [3, 1, 3]
    assert list(found.loc[2, ["log_ratio", "mean_log_ratio"]]) == pytest.approx([0.015, 0.02])


def test_a_case_on_the_very_edge_of_the_screen_is_no_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    edge = measured(10, 0.01, 0.01, 0.005, 9.0)
    none = edge.assign(**dict.fromkeys(ESTIMATE[1:], math.nan), pairs=1)
    assert suspects(pd.concat([none, edge])).tolist() == [0, 1]
    monkeypatch.setattr(decide_module, "SCREEN_SHIFT", edge["log_ratio"].item())
    assert suspects(edge).tolist() == [0]
    monkeypatch.undo()
    monkeypatch.setattr(decide_module, "SCREEN_P", p_value(edge, 1).item())
    assert suspects(edge).tolist() == [0]


SCREEN = np.array(
    [
        [0.001, -0.001, 0.002, -0.002, 0.0],
        [0.03, 0.02, 0.03, 0.02, 0.04],
        [0.0, 0.02, -0.03, 0.03, -0.02],
        [0.01, math.nan, math.nan, math.nan, math.nan],
        [0.021, 0.02, 0.019, 0.018, 0.022],
        [0.004, -0.004, 0.001, 0.0, 0.002],
    ]
)
TIMES = np.log([5.0, 10.0, 40.0, 80.0, 100.0, 300.0])


def test_suspects_are_decided_with_the_variance_of_what_is_no_suspect() -> None:
    confirm = np.full((6, 8), math.nan)
    confirm[1] = np.tile([0.02, 0.03], 4)
    confirm[4] = np.tile([0.001, -0.001], 4)
    found = decide(SCREEN, confirm, TIMES, (LOOK, LAST), [True] * 6)
    beside = (*spread(SCREEN[[0, 2, 5]]), TIMES[[0, 2, 5]])
    expected = estimates(confirm[[1, 4]], TIMES[[1, 4]], beside, SCREEN[[1, 4]])[ESTIMATE[:-1]]
    assert found.loc[[1, 4], ESTIMATE[:-1]].to_numpy().tolist() == expected.to_numpy().tolist()
    assert (found["status"] == "").to_list() == [False, False, False, True, False, False]


def test_a_suspect_that_is_not_measured_again_keeps_the_estimate_of_its_screening() -> None:
    screened = estimates(SCREEN, TIMES)
    found = decide(SCREEN, np.full((6, 0), math.nan), TIMES, (LOOK, LAST), [True] * 6).loc[1]
    assert list(found[ESTIMATE]) == list(screened.loc[1, ESTIMATE])
    assert (found["status"], found["direction"]) == (CaseStatus.OPEN, 1)
    assert pd.isna(found.loc["p_value"])
    assert found["resolvable"] == _resolvable(screened, (LOOK, LAST), 2)[1]


def test_what_an_earlier_look_flagged_is_not_counted_again_later() -> None:
    confirm = np.full((6, 20), math.nan)
    confirm[1] = np.tile([0.5, 0.5001], 10)
    confirm[4] = np.tile([0.1, -0.06], 10)
    found = decide(SCREEN, confirm, TIMES, (LOOK, LAST), [True] * 6)
    assert list(found.loc[1, ["status", "pairs"]]) == [CaseStatus.FLAGGED, LOOK.pairs]
    assert found.loc[4, "pairs"] == LAST.pairs
    assert found.loc[4, "p_value"] == pytest.approx(p_value(found.loc[4], 1) * PAIRS_ALPHA / LAST.alpha)


def test_what_the_experiment_would_have_found_goes_by_the_last_planned_pairs_and_all_suspects() -> None:
    screened = measured(10, 0.0, 0.0, 0.004, 25.0)
    looks = (LOOK, LAST)
    expected = 0.004 * math.sqrt(10 / 20) * float(stats.t.isf(LAST.alpha / 3, 25.0))
    assert _resolvable(screened, looks, 3).item() == pytest.approx(expected)
    alone = 0.004 * math.sqrt(10 / 20) * float(stats.t.isf(LAST.alpha, 25.0))
    assert _resolvable(screened, looks, 0).item() == _resolvable(screened, looks, 1).item() == pytest.approx(alone)
    assert _resolvable(measured(10, 0.0, 0.0, 1e-6, 25.0), looks, 3).item() == SMALLEST_PAIRS_SHIFT
    screen = np.random.default_rng(3).normal(0, 0.002, (20, 10))  # of cases that are cleared
    found = decide(screen, np.full((20, 4), np.nan), np.zeros(20), looks, [False] * 20)
    assert found["resolvable"].to_list() == _resolvable(found, looks, 0).to_list()


def together(shift: float, error: float, pairs: int = 400, cases: int = 3) -> tuple[bool, float, int]:
    """Cases that move alike, so that their median is each of them."""
    deviations = np.tile([1.0, -1.0], pairs // 2) * error * math.sqrt(pairs - 1)
    found = moved_together(np.tile(shift + deviations, (cases, 1)))
    assert found is not None
    return found.moved, found.resolvable, found.cases


def test_a_suite_moved_where_its_median_case_did_in_either_direction_by_more_than_the_smallest_shift() -> None:
    error, far = 0.002, float(stats.t.isf(PAIRS_ALPHA / 2, 399))
    for sign in (1, -1):
        assert together(sign * error * far * 1.01, error)[0]
        assert not together(sign * error * far * 0.99, error)[0]
    assert not together(SMALLEST_PAIRS_SHIFT * 0.999, SMALLEST_PAIRS_SHIFT / 100)[0]
    assert together(SMALLEST_PAIRS_SHIFT * 1.001, SMALLEST_PAIRS_SHIFT / 100)[0]


def test_a_suite_on_the_very_edge_did_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.tile([0.019, 0.02, 0.021], (3, 1))
    found = moved_together(rows)
    assert found is not None
    assert found.moved
    monkeypatch.setattr(decide_module, "SMALLEST_PAIRS_SHIFT", found.estimate.log_ratio)
    assert not moved_together(rows).moved  # type: ignore[union-attr]
    monkeypatch.undo()
    monkeypatch.setattr(decide_module, "PAIRS_ALPHA", 2 * p_value(found.estimate, 1))
    assert not moved_together(rows).moved  # type: ignore[union-attr]


def test_a_suite_says_how_many_cases_moved_and_what_would_have_been_found() -> None:
    moved, resolvable, cases = together(0.0, 0.01, cases=5)
    assert resolvable == pytest.approx(0.01 * float(stats.t.isf(PAIRS_ALPHA / 2, 399)), rel=1e-6)
    assert (moved, cases) == (False, 5)
    assert together(0.0, 1e-6)[1] == SMALLEST_PAIRS_SHIFT


def test_three_cases_and_two_pairs_are_enough_and_fewer_are_not() -> None:
    assert moved_together(np.array([[0.1, 0.2]] * 3)) is not None
    assert moved_together(np.array([[0.1, 0.2]] * 2)) is None
    assert moved_together(np.array([[0.1, math.nan]] * 3)) is None
    assert moved_together(np.empty((5, 0))) is None
