"""The numbers behind change points, each against its formula written out, or against a search of all possibilities."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.history import scan
from scipy import integrate, optimize, stats  # type: ignore[import-untyped]  # SciPy ships no type information

NAN = math.nan


def test_values_move_to_the_front_in_order_and_columns_without_any_go() -> None:
    values, counts = scan.packed(np.array([[NAN, 1.0, NAN, 2.0], [NAN, NAN, NAN, NAN], [3.0, NAN, math.inf, NAN]]))
    assert np.array_equal(values, [[1.0, 2.0], [NAN, NAN], [3.0, NAN]], equal_nan=True)
    assert counts.tolist() == [2.0, 0.0, 1.0]
    assert counts.dtype == np.float64
    assert scan.packed(np.empty((2, 0)))[0].shape == (2, 0)
    assert scan.packed(np.empty((0, 3)))[0].shape == (0, 1)
    assert scan.packed(np.full((2, 3), NAN))[0].shape == (2, 1)


def test_the_first_variance_is_of_the_median_difference_between_neighbours() -> None:
    values = np.array([[0.0, 1.0, 3.0, 6.0, 10.0], [0.0, 2.0, NAN, NAN, NAN], [5.0, NAN, NAN, NAN, NAN], [NAN] * 5])
    variance, df = scan.first_variance(values, np.array([5.0, 2.0, 1.0, 0.0]))
    five, two = (1.4826 * median / math.sqrt(2) * count / (count - 0.8) for median, count in ((2.5, 5), (2.0, 2)))
    assert variance == pytest.approx([five**2, two**2, 0.0, 0.0], rel=1e-12)
    assert df.tolist() == [1.0, 0.25, 0.0, 0.0]
    assert scan.first_variance(np.array([[1.0, 2.0]]), np.array([2.0]))[0][0] > 0
    variance, df = scan.first_variance(np.array([[1.0], [2.0]]), np.ones(2))
    assert (variance.tolist(), df.tolist()) == ([0.0, 0.0], [0.0, 0.0])


def odd(*values: float, sd: float = 1.0) -> list[bool]:
    flags: list[bool] = scan.odd(np.array([values]), np.array([sd]))[0].tolist()
    return flags


def test_a_session_with_fewer_than_two_neighbours_alike_is_odd() -> None:
    assert odd(0, 0, 0) == [False] * 3
    assert odd(0, 0) == [True] * 2
    assert odd(0, 3, 0) == [False] * 3
    assert odd(0, 3.001, 0) == [True] * 3
    assert odd(0, 3, 0, sd=0.999) == [True] * 3
    assert odd(0, 9, 19, 0, 0) == [False, True, True, False, False]  # four away is near
    assert odd(0, 9, 19, 29, 0, 0) == [True, True, True, True, False, True]  # five is not
    assert odd(5.0) == [True]


def every_cut(values: list[float], sd: float) -> scan.Segments:
    """Of all ways to cut a row once or twice or not, the one that explains it best at the price of its segments."""
    ends = len(values)
    scaled = (np.array(values) - np.median(values)) / sd
    ways = [
        (0, *cuts, ends)
        for count in range(3)
        for cuts in itertools.combinations(range(scan.SHORTEST, ends - scan.SHORTEST + 1), count)
    ]
    allowed = [way for way in ways if min(end - first for first, end in itertools.pairwise(way)) >= scan.SHORTEST]
    gains = [
        sum(scaled[first:end].sum() ** 2 / (end - first) - scan.PROPOSED**2 for first, end in itertools.pairwise(way))
        for way in allowed
    ]
    return tuple(itertools.pairwise(allowed[int(np.argmax(gains))]))


ROWS = {
    "one step": [0, 1, 0, -1, 0, 1, 9, 10, 9, 8, 9, 10, 9, 9, 9],
    "two steps": [0, 1, 0, -1, 0, 9, 10, 9, 8, 9, 0, 1, 0, -1, 0],
    "no step": [0, 1, 0, -1, 0, 1, 0, -1, 0, 1, 0, -1, 0, 1, 0],
    "a step by little": [0, 1, 0, -1, 0, 1, 3, 4, 3, 2, 3, 4, 3, 4, 3],
    "a step at the end": [0, 1, 0, -1, 0, 1, 0, -1, 0, 1, 9, 10, 9, 8, 9],
    "a step at the start": [9, 10, 9, 8, 9, 0, 1, 0, -1, 0, 1, 0, -1, 1, 0],
}


@pytest.mark.parametrize("sd", [1.0, 2.0, 0.5])
def test_cuts_are_those_of_a_search_of_all(sd: float) -> None:
    rows = [[sd * value for value in values] for values in ROWS.values()]
    found = scan.propose(np.array(rows) + 1e8, np.full(len(rows), sd))  # however large the values are
    assert dict(zip(ROWS, found, strict=True)) == {
        name: every_cut(row, sd) for name, row in zip(ROWS, rows, strict=True)
    }
    assert len(found[0]) == 2
    assert len(found[1]) == 3


def test_short_rows_end_where_they_end_and_empty_ones_are_no_segment() -> None:
    values = np.full((6, 14), NAN)
    values[0, :10] = [0, 0, 0, 0, 0, 9, 9, 9, 9, 9]
    values[1, :10] = [0, 0, 0, 0, 0, 9, 99, 9, 99, 199]  # the last five agree with too few
    values[2, :3] = [0, 0, 9]
    values[4, :13] = [0, 0, 0, 0, 50, 0, 0, 9, 9, 9, 9, 9, 9]  # an odd session
    values[5] = [0] * 10 + [9] * 4  # a segment needs five
    found = scan.propose(values, np.ones(6))
    assert found == [((0, 5), (5, 10)), ((0, 10),), ((0, 3),), ((0, 0),), ((0, 7), (7, 13)), ((0, 9), (9, 14))]


def test_odd_sessions_are_not_in_the_sums() -> None:
    odd_ones = 100.0 * np.arange(1, 41)
    row = np.concatenate([np.zeros(40), np.column_stack([np.zeros(40), odd_ones]).ravel()])
    assert scan.propose(row[None], np.ones(1)) == [((0, 120),)]


def test_a_cut_costs_the_proposed_t_statistic_squared() -> None:
    for distance, segments in ((0.999, 1), (1.001, 2)):
        # Two levels of 8 sessions differ by d: 4 d² against one level, d = PROPOSED / 2 at its price.
        step = distance * scan.PROPOSED / 2
        assert len(scan.propose(np.array([[0.0] * 8 + [step] * 8]), np.ones(1))[0]) == segments


def test_of_long_segments_only_every_eighth_beginning_is_tried() -> None:
    noise = np.tile([0.5, -0.5], 152)
    there = np.arange(304)
    rows = np.array([np.where(there < cut, 0.0, 20.0) + noise for cut in (80, 83, 160, 173, 176, 177, 294)])
    found = [segments[-1][0] for segments in scan.propose(rows, np.ones(7))]
    assert found == [80, 88, 160, 178, 176, 177, 294]
    assert scan.propose(rows[:1, :200], np.ones(1)) == [((0, 80), (80, 200))]


def test_a_level_is_of_the_sessions_near_it_and_its_loss_is_bounded() -> None:
    values = np.array([1.0, 2.0, 3.0, 2.0, 50.0])
    where, loss, agreeing = scan.level(values, 1.0)
    assert where == pytest.approx(2.0)
    assert loss == pytest.approx(1 + 0 + 1 + 0 + 3.5**2)
    assert agreeing == 4
    assert scan.level(values, 2.0)[1] == pytest.approx(2 / 4 + 3.5**2)
    assert scan.level(np.array([7.0]), 1.0) == (7.0, 0.0, 1)
    assert scan.level(np.array([3.5, 0.0]), 0.5) == (0.0, 12.25, 1)  # of two as good as each other the lower
    # A session exactly as far as counts fully does not agree.
    assert scan.level(np.array([0.0, 0.0, 0.0, 3.5]), 1.0) == (0.0, 12.25, 3)


def test_what_is_detectable_is_what_a_clean_step_must_be_to_pass() -> None:
    assert scan.detectable(9, 0.01, 4.0, 5.0) == math.inf
    assert scan.detectable(10, 0.01, 4.0, 5.0) == pytest.approx(0.04 * math.sqrt(2 / 5))
    error = 0.01 * math.sqrt(1 / 5 + 1 / 25)
    assert scan.detectable(30, 0.01, 4.0, 5.0) == pytest.approx(4 * error)
    assert scan.detectable(30, 0.001, 4.0, 5.0) == pytest.approx(5 * error / 10)  # small steps have the older limit
    assert scan.detectable(30, 0.006, 4.0, 5.0) == scan.LARGE


def test_the_newest_sessions_moved_where_two_levels_fit_better_by_the_critical_value() -> None:
    values = np.array([0.0] * 25 + [1.0] * 5)
    t_value = 1 / math.sqrt(1 / 5 + 1 / 25)
    assert scan.newest_moved(values, 1.0, 0.999 * t_value)
    assert not scan.newest_moved(values, 1.0, 1.001 * t_value)
    assert not scan.newest_moved(np.array([0.0] * 20 + [2.5] * 5), 1.0, 5.0)  # 25 variances, and no more
    assert not scan.newest_moved(values[::-1].copy(), 1.0, 2.0)  # an old step is not new
    four = np.array([0.0] * 26 + [100.0] * 4)
    assert not scan.newest_moved(four, 1.0, 6.4)  # 37 variances better with five, 49 with the four alone
    scattered = np.array([0.0] * 25 + [100.0, 200.0, 300.0, 400.0, 500.0])
    assert not scan.newest_moved(scattered, 1.0, 5.0)  # no level of their own


def four_steps(values: Floats, sd: float) -> tuple[float, float, int]:
    """Up to twelve beginnings, the mean of what is near four times over, and the least of the bounded losses."""
    count = min(len(values), 12)
    found = []
    for start in range(count):
        where = float(np.sort(values)[round(start * (len(values) - 1) / (count - 1))])
        for _ in range(4):
            where = float(np.mean([value for value in values if abs(value - where) < 3.5 * sd]))
        far = [abs(value - where) / sd for value in values]
        loss = sum(min(3.5, each) ** 2 for each in far)
        found.append((loss, where, sum(each < 3.5 for each in far)))
    loss, where, agreeing = min(found, key=lambda each: round(each[0], 9))
    return where, loss, agreeing


@pytest.mark.parametrize(("width", "count", "seed"), [(20, 30, 51), (10, 45, 48), (60, 45, 28), (1, 9, 1)])
def test_a_level_is_looked_for_from_twelve_beginnings_in_four_steps(width: float, count: int, seed: int) -> None:
    """Of these values one step or one beginning more or less makes another level."""
    values = np.random.default_rng(seed).uniform(-width, width, count)
    assert scan.level(values, 2.0) == pytest.approx(four_steps(values, 2.0))


def test_residuals_are_about_each_segments_level_without_what_is_far_from_it() -> None:
    values = np.full((4, 10), NAN)
    values[0, :5] = [1.0, 2.0, 3.0, 2.0, 50.0]
    values[1, :9] = [1.0, 2.0, 3.0, 2.0, 11.0, 12.0, 13.0, 12.0, 60.0]
    values[3, :1] = [4.0]
    segments = [((0, 5),), ((0, 4), (4, 9)), ((0, 0),), ((0, 1),)]
    totals, df = scan.residuals(values, segments, np.ones(4))
    assert totals == pytest.approx([2.0, 4.0, 0.0, 0.0])
    assert df.tolist() == [3.0, 6.0, 0.0, 0.0]
    totals, df = scan.residuals(values, segments, np.full(4, 100.0))
    mean = (1 + 2 + 3 + 2 + 50) / 5
    assert totals[0] == pytest.approx(sum((value - mean) ** 2 for value in values[0, :5]))
    assert df[0] == 4.0


@pytest.mark.parametrize(("width", "count", "seed"), [(6, 15, 1), (8, 12, 47), (6, 9, 39)])
def test_the_level_of_a_whole_row_is_the_mean_of_what_is_near_from_the_median_on_in_three_steps(
    width: float, count: int, seed: int
) -> None:
    """Of these values one step more or less leaves others out."""
    values = np.random.default_rng(seed).uniform(-width, width, count)
    level = float(np.median(values))
    for _ in range(3):
        level = float(np.mean([value for value in values if abs(value - level) < 3.5]))
    own = [(value - level) ** 2 for value in values if abs(value - level) < 3.5]
    rows = np.array([values + 100.0, values, values - 40.0])  # each about its own median
    totals, df = scan.residuals(rows, [((0, count),)] * 3, np.ones(3))
    assert totals == pytest.approx([sum(own)] * 3)
    assert df.tolist() == [len(own) - 1] * 3


def test_a_session_exactly_as_far_as_counts_fully_is_left_out_of_the_residuals() -> None:
    row = [0.0, 0.0, 0.0, 3.5, 3.5]
    segments = [((0, 4),), ((0, 2), (2, 4)), ((0, 4), (4, 5))]
    totals, df = scan.residuals(np.array([[*row[:4], NAN], row, row]), segments, np.array([1.0, 1e-3, 1.0]))
    assert (totals.tolist(), df.tolist()) == ([0.0] * 3, [2.0, 1.0, 2.0])  # of two that differ by more, one agrees


STEP = np.array([0.0, 1.0, 0.0, -1.0, 0.0, 1.0, 4.0, 5.0, 4.0, 3.0, 4.0, 5.0, 4.0])


def gain(values: Floats, first: int, cut: int, end: int) -> float:
    """How much better two levels fit than one, in variances, where no session is far from any of them."""

    def loss(part: Floats) -> float:
        return float(((part - part.mean()) ** 2).sum())

    return loss(values[first:end]) - loss(values[first:cut]) - loss(values[cut:end])


def test_a_cut_stays_where_two_levels_fit_better_than_the_critical_value_allows() -> None:
    strength = math.sqrt(gain(STEP, 0, 6, 13))
    segments = ((0, 6), (6, 13))
    assert scan.tested(STEP, segments, 1.0, 0.0, strength * 0.999) == segments
    assert scan.tested(STEP, segments, 1.0, 0.0, strength * 1.001) == ((0, 13),)
    assert scan.tested(2 * STEP, segments, 2.0, 0.0, strength * 0.999) == segments
    assert scan.tested(STEP, ((0, 13),), 1.0, 0.0, 0.0) == ((0, 13),)


def test_a_cut_of_exactly_the_critical_value_is_taken_out() -> None:
    values = np.repeat([0.0, 1.0], 8)  # two levels explain 4 variances more than one
    assert gain(values, 0, 8, 16) == 4.0
    assert scan.tested(values, ((0, 8), (8, 16)), 1.0, 2.0, 2.0) == ((0, 16),)


def test_a_cut_with_few_sessions_after_it_has_the_critical_value_of_the_newest() -> None:
    values = STEP[:12]
    segments = ((0, 6), (6, 12))
    strength = math.sqrt(gain(values, 0, 6, 12))
    assert scan.tested(values, segments, 1.0, strength * 0.999, math.inf) == segments
    assert scan.tested(values, segments, 1.0, strength * 1.001, 1e-9) == ((0, 12),)
    assert scan.tested(STEP, ((0, 6), (6, 13)), 1.0, 1e-9, math.inf) == ((0, 13),)  # seven after it
    ended = ((0, 6), (6, 12), (12, 16))
    assert scan.tested(np.append(values, [4.0, 5.0, 4.0, 3.0]), ended, 1.0, math.inf, 1e-9)[0] == (0, 6)


def test_the_faintest_cut_goes_first_and_the_others_are_tested_anew() -> None:
    values = np.concatenate([np.zeros(5), np.full(5, 0.4), np.full(5, 2.4), np.full(7, 2.4)])
    cuts = ((0, 5), (5, 10), (10, 15), (15, 22))
    strengths = [math.sqrt(gain(values, *ends)) for ends in ((0, 5, 10), (5, 10, 15))]
    assert strengths[0] < 2.0 < strengths[1]
    assert scan.tested(values, cuts, 1.0, 2.0, 2.0) == ((0, 10), (10, 22))


@pytest.mark.parametrize(("after", "agreeing"), [(5, 4), (7, 5)])
def test_a_segment_with_which_too_few_sessions_agree_is_no_level(after: int, agreeing: int) -> None:
    """Four suffice of the newest segment while it is short."""
    far = after - agreeing
    values = np.array([0.0] * 5 + [9.0] * agreeing + [30.0 + 20 * number for number in range(far)])
    segments = ((0, 5), (5, 5 + after))
    assert scan.tested(values, segments, 1.0, 1e-9, 1e-9) == segments
    values[5] = -50.0
    assert scan.tested(values, segments, 1.0, 1e-9, 1e-9) == ((0, 5 + after),)
    older = np.array([0.0] * 4 + [-50.0] + [9.0] * after)
    assert scan.tested(older, segments, 1.0, 1e-9, 1e-9) == ((0, 5 + after),)


def test_the_largest_of_many_z_statistics_is_siegmunds_approximation() -> None:
    sessions, cuts, bounds = 20, np.array([4.0, 7.0, 16.0]), (0.5, 2.0, 3.5)
    expected = []
    for bound in bounds:
        chance = 0.0
        for cut in cuts:
            rate = sessions / (cut * (sessions - cut))
            step = bound * math.sqrt(rate) / 2
            within = stats.norm.cdf(step)
            chance += rate * (within - 0.5) / step / (step * within + stats.norm.pdf(step))
        expected.append(chance * bound * stats.norm.pdf(bound))
    assert scan._crossed(np.array(bounds), cuts, sessions) == pytest.approx(expected, rel=1e-12)
    assert scan._crossed(np.array([1.5]), np.arange(4.0, 400.0), 404)[0] == 1.0


DEGREES = [2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 40.0, 60.0, 100.0, 300.0, 1000.0]


@pytest.mark.parametrize(("position", "df"), [*enumerate(DEGREES)])
def test_the_critical_value_averages_over_how_far_the_sd_may_be_off(position: int, df: float) -> None:
    cuts = (4, 5, 6, 7, 8)
    value = float(scan._critical(1e-3, 30, cuts)[position])

    def crossed(ratio: float) -> float:
        chance = scan._crossed(np.array([value * ratio]), np.array(cuts, dtype=float), 30)[0]
        return float(chance * stats.chi.pdf(ratio * math.sqrt(df), df) * math.sqrt(df))

    assert integrate.quad(crossed, 1e-6, 10.0, limit=200)[0] == pytest.approx(1e-3, rel=0.003 if df > 2 else 0.012)


def test_critical_values_are_tabulated_from_2_to_200() -> None:
    assert [float(scan._critical(chance, 30, (15,))[0]) for chance in (1.0, 1e-9)] == pytest.approx([2.0, 200.0])


def test_most_of_the_error_is_spent_on_the_newest_sessions_and_all_series_share_it() -> None:
    newest, older = scan.critical(10, 20, scan.DEGREES)
    assert newest == pytest.approx(scan._critical(0.008 * 0.95 / 10, 20, (14, 15)), rel=1e-9)
    assert older == pytest.approx(scan._critical(0.008 * (1 - 0.95) / 10, 20, tuple(range(5, 14))), rel=1e-9)


def test_critical_values_lie_between_those_of_the_nearest_degrees_of_freedom() -> None:
    few, between, many = scan.critical(10, 20, np.array([20.0, math.sqrt(20.0 * 30.0), 30.0]))[0]
    assert between == pytest.approx((few + many) / 2, rel=1e-9)
    least, below, most, above = scan.critical(10, 20, np.array([2.0, 0.0, 1000.0, 1e6]))[1]
    assert (least, most) == (below, above)


def test_a_series_of_twice_the_fewest_sessions_can_be_cut_and_a_shorter_one_cannot() -> None:
    ten, older = scan.critical(1, 10, np.array([5.0]))
    assert np.isfinite(ten).all()
    assert np.isinf(older).all()
    for values in scan.critical(1, 9, np.array([5.0, 6.0])):
        assert values.tolist() == [math.inf, math.inf]


def test_a_segment_needs_four_sessions_that_are_not_odd() -> None:
    def proposed(*values: float) -> scan.Segments:
        (found,) = scan.propose(np.array([values], dtype=float), np.array([1.0]))
        return found

    assert proposed(*[0] * 10, 10, 10, 40, 10, 10) == ((0, 10), (10, 15))
    assert proposed(*[0] * 8, *[10] * 7, 10, 40, 10, -30, 10) == ((0, 8), (8, 20))  # the last five have three


def moved(values: list[float], *segments: tuple[int, int]) -> scan.Segments:
    return scan.tested(np.array(values), segments, 1.0, 2.0, 2.0)


def test_a_cut_moves_to_where_two_levels_fit_best_and_leaves_five_sessions_on_either_side() -> None:
    three: list[float] = [0.0] * 6 + [10.0] * 6 + [20.0] * 6
    assert moved(three, (0, 6), (6, 11), (11, 18)) == ((0, 6), (6, 12), (12, 18))
    assert moved(three, (0, 7), (7, 12), (12, 18)) == ((0, 6), (6, 12), (12, 18))
    assert moved([0.0] * 4 + [2.9] + [5.0] * 10, (0, 5), (5, 15)) == ((0, 5), (5, 15))
    assert moved([5.0] * 10 + [2.9] + [0.0] * 4, (0, 10), (10, 15)) == ((0, 10), (10, 15))
    assert moved([0.0] * 6 + [100.0] + [10.0] * 6, (0, 7), (7, 13)) == ((0, 7), (7, 13))  # 6 fits as well
    assert moved([0.0] * 10 + [10.0] * 10, (0, 15), (15, 20)) == ((0, 11), (11, 20))  # by four at most
    later = [0.0] * 10 + [50.0] * 3 + [53.0] * 12
    assert moved(later, (0, 10), (10, 15), (15, 25)) == ((0, 10), (10, 15), (15, 25))


def test_a_newest_step_of_exactly_the_large_size_has_the_critical_value_of_the_newest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "LARGE", 1.0)
    values = np.array([0.0] * 10 + [1.0] * 5)
    assert scan.tested(values, ((0, 10), (10, 15)), 0.1, 2.0, 1e6) == ((0, 10), (10, 15))
    assert scan.tested(-values, ((0, 10), (10, 15)), 0.1, 2.0, 1e6) == ((0, 10), (10, 15))
    assert scan.tested(0.99 * values, ((0, 10), (10, 15)), 0.1, 2.0, 1e6) == ((0, 15),)


def correlated(rng: np.random.Generator, by: float, cases: int = 60, sessions: int = 30) -> Floats:
    """Noise of a standard deviation of its own in each case, neighbours correlated by so much."""
    values = rng.uniform(0.001, 0.005, (cases, 1)) * rng.standard_normal((cases, sessions))
    for session in range(1, sessions):
        values[:, session] = by * values[:, session - 1] + np.sqrt(1 - by**2) * values[:, session]
    return values


def correlation_by_hand(rows: Sequence[Floats]) -> float:
    """That of AR(1) noise whose sessions six apart differ by as much more than neighbours as these do."""
    ratios: list[float] = []
    for row in rows:
        near, far = (
            [abs(a - b) for a, b in zip(row[lag:], row[:-lag], strict=True) if np.isfinite(a - b)] for lag in (1, 6)
        )
        if near and np.median(near) > 0:
            ratios += (np.array(far) / np.median(near)).tolist()
    ratio = 1 / float(np.median(ratios))

    def beyond(by: float) -> float:
        return math.sqrt((1 - by) / (1 - by**6)) - ratio

    return 0.0 if beyond(0.0) < 0 else 0.95 if beyond(0.95) > 0 else float(optimize.brentq(beyond, 0.0, 0.95))


@pytest.mark.parametrize("by", [0.0, 0.3, 0.6, 0.8, 0.9999])
def test_the_correlation_of_neighbours_is_estimated_whatever_steps_there_are(by: float) -> None:
    values = correlated(np.random.default_rng(4), by)
    found = scan.correlation([values])
    assert found == pytest.approx(correlation_by_hand([*values]), abs=1e-4)
    assert found == pytest.approx(min(by, 0.95), abs=0.08)
    values[:10, 12:] += 0.05
    values[3, 5:9] = values[4] = np.nan
    values[5, 1:] = values[5, 0]
    values[6, 1:] = np.nan
    values[7, [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13]] = np.nan  # sessions six apart, and no neighbours
    blocks = [values[:, :15], values[:, 15:22], values[:, 22:28]]  # seven sessions have one pair six apart
    found = scan.correlation(blocks)
    assert found == pytest.approx(correlation_by_hand([row for block in blocks[:2] for row in block]), abs=1e-4)
    assert found == pytest.approx(min(by, 0.95), abs=0.15)


def test_equal_times_and_short_histories_tell_of_no_correlation() -> None:
    assert scan.correlation([np.ones((5, 30))]) == 0
    assert scan.correlation([np.tile([1.0, 2.0], 15)[None]]) == 0  # sessions six apart are equal
    assert scan.correlation([np.ones((5, 4)), np.full((5, 9), np.nan), np.ones((5, 1)), np.empty((5, 0))]) == 0


def test_a_visit_is_half_of_the_shift_towards_the_other_level_and_more_than_noise_explains() -> None:
    towards = np.array([-9.0, 0.0, 2.999, 3.0, 4.999, 5.0, 9.0])
    assert [scan.visits(towards, 1.0, shift) for shift in (0.0, 6.0, 10.0, -10.0, 12.0)] == [4, 4, 2, 2, 1]
    assert scan.visits(towards, 2.0, 6.0) == 1


@pytest.mark.parametrize(("run", "visited", "sessions"), [(1, 0, 0), (1, 0, 40), (5, 0, 40), (3, 7, 30), (4, 30, 30)])
def test_the_chance_of_a_run_is_that_of_each_session_after_those_before_it(
    run: int, visited: int, sessions: int
) -> None:
    """One session in sixty is odd beforehand."""
    expected = math.prod((0.5 + visited + more) / (0.5 + 30.0 + sessions + more) for more in range(run))
    assert scan.chance(run, visited, sessions) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("places", [1, 40, 1000])
@pytest.mark.parametrize(
    ("visits", "sessions"), [((3, 0), (20, 6)), ((1, 2), (20, 12)), ((6, 6), (12, 12)), ((9, 1), (30, 5))]
)
def test_a_mixture_of_two_levels_is_as_probable_as_a_hypergeometric_draw(
    visits: tuple[int, int], sessions: tuple[int, int], places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (early, back), (before, after) = visits, sessions
    there = early + after - back
    chance = places * stats.hypergeom.sf(after - back - 1, before + after, there, after)
    older, newer = (np.where(np.arange(count) < off, 1.0, 0.0) for count, off in ((before, early), (after, back)))
    assert scan.is_mixture(older, newer, 0.1, 1.0, places) == (chance > 0.003)
    for factor in (0.999, 1.001):
        monkeypatch.setattr(scan, "MOST_PROBABLE", factor * chance)
        assert scan.is_mixture(older, newer, 0.1, 1.0, places) == (factor < 1)


def test_two_visits_are_no_mixture_however_probable_and_three_are(monkeypatch: pytest.MonkeyPatch) -> None:
    coin = np.array([1.0, 0.0])
    assert not scan.is_mixture(coin, coin, 0.1, 1.0, 1000)
    assert scan.is_mixture(np.append(coin, 1.0), coin, 0.1, 1.0, 1000)
    monkeypatch.setattr(scan, "MOST_PROBABLE", 1.0)
    assert not scan.is_mixture(coin, np.ones(3), 0.1, 1.0, 1)  # as probable as may be


def test_a_run_is_chance_by_the_highest_rate_of_visits_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, busy = np.zeros(40), np.repeat([1.0, 0.0], 20)
    few = 40 * scan.chance(5, 0, 40)
    assert few < 0.003 < 40 * scan.chance(5, 20, 40)
    assert not scan.is_chance([quiet], 0.1, 1.0, 5, 40)
    assert scan.is_chance([quiet, busy], 0.1, 1.0, 5, 40)
    assert scan.is_chance([quiet], 0.1, 1.0, 5, math.ceil(40 * 0.003 / few))
    assert not scan.is_chance([quiet], 0.1, 1.0, 5, math.floor(40 * 0.003 / few))
    monkeypatch.setattr(scan, "MOST_PROBABLE", few)
    assert not scan.is_chance([quiet], 0.1, 1.0, 5, 40)
