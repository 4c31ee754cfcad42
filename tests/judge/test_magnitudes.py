"""How large what is summed into an element is, by evaluations of its reference: the formula, and what stands in."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from peakgate.judge.magnitudes import (
    Rounded,
    by_evaluations,
    estimated,
    exact_in_float32,
    of_row,
    shares,
    with_rounding,
)

SHARE = 2.0**-20
PARTS = (0.0, 1e-3, 0.5, 1.0, 3.0, -2.0, 40.0, math.inf, math.nan)


def neighbours(squares, width):
    """The mean of each ``width`` squares in order, for each; of what is left over that of the last ``width``."""
    finite = [square if math.isfinite(square) else 0.0 for square in squares]
    width = min(width, len(finite))
    whole = len(finite) // width * width
    starts = [at // width * width if at < whole else len(finite) - width for at in range(len(finite))]
    return [sum(finite[start : start + width]) / width for start in starts]


def magnitudes(values, moves, tolerance, unit):
    """As the module says: four deviations, neighbours up to 64 times or a bound of 1/16, eight roundings."""
    moved = [4 * math.sqrt(sum(each) / 3) / (SHARE * math.sqrt(7 / 12)) for each in zip(*moves, strict=True)]
    around = map(math.sqrt, neighbours([each**2 for each in moved], 64))
    found = []
    for move, value, beside in zip(moved, values, around, strict=True):
        own = max(move if math.isfinite(move) else 0.0, abs(value))
        most = min(max(1 / 16 / tolerance, 1.0), 64.0)
        found.append(max(own, min(beside, most * own), 8 * unit / tolerance / 4 * beside))
    return found


QUIET = [0.001, *[1e-9] * 149]
LOUD = [40.0, *[1e-3] * 449]


@example(values=QUIET, moves=LOUD, tolerance=1e-6, unit=2.0**-53)  # 64 times their own
@example(values=QUIET, moves=LOUD, tolerance=2.0**-6, unit=2.0**-24)  # up to a bound of 1/16
@example(values=QUIET, moves=LOUD, tolerance=0.1, unit=2.0**-3)  # eight roundings
@example(values=QUIET, moves=LOUD, tolerance=1e-4, unit=2.0**-11)
@example(values=[1.0] * 133, moves=LOUD, tolerance=1e-4, unit=2.0**-11)
@given(
    values=st.lists(st.sampled_from(PARTS[:-2]), min_size=1, max_size=150),
    moves=st.lists(st.sampled_from(PARTS), min_size=450, max_size=450),
    tolerance=st.sampled_from([1e-6, 1e-4, 2.0**-6, 0.03, 0.1, 0.5]),
    unit=st.sampled_from([2.0**-24, 2.0**-11, 2.0**-3]),
)
def test_a_magnitude_is_four_deviations_of_three_evaluations(values, moves, tolerance, unit):
    by_seed = [np.array(moves[150 * at :][: len(values)]) * SHARE for at in range(3)]
    seeds = []

    def moved(seed):
        seeds.append(seed)
        return [np.array(values) + by_seed[len(seeds) - 1]]

    with np.errstate(invalid="ignore"):
        (found,) = by_evaluations(np, [np.array(values)], [Rounded(tolerance, unit)], moved, SHARE).with_neighbours(np)
        exact = [(np.array(values) + each - np.array(values)) ** 2 for each in by_seed]
    assert np.allclose(found, magnitudes(values, exact, tolerance, unit), rtol=1e-12)
    assert min(np.diff(sorted(seeds))) > 100  # an argument's position is added to a seed


def test_shares_are_of_either_sign_and_differ_by_seed():
    found, other = (shares(np, (400, 250), seed) for seed in (1, 2))
    assert 0.5 <= np.abs(found).min() < 0.501
    assert 0.999 < np.abs(found).max() <= 1
    assert abs(found.mean()) < 0.01
    assert np.sqrt(np.mean(found.astype(float) ** 2)) == pytest.approx(math.sqrt(7 / 12), rel=3e-3)
    assert abs(np.mean(found * other)) < 0.01


def test_numbers_move_by_up_to_a_millionth_and_integers_stay():
    x, n = np.random.default_rng(1).uniform(1, 2, 4096), np.arange(4096)
    seen = []

    def reference(given):
        seen.append(given)
        return [given[0] - given[1]]

    (found,) = estimated(np, reference, [x, x, n], [x - x], [Rounded(1e-5, 2.0**-24)]).with_neighbours(np)
    assert len(seen) == 3
    moved = [given[at] / x - 1 for given in seen for at in (0, 1)]
    for each in moved:
        assert SHARE / 2.01 < np.abs(each).min() < SHARE / 1.99
        assert SHARE / 1.01 < np.abs(each).max() < SHARE * 1.0001
        assert abs(each.mean()) < SHARE / 10
    assert max(abs(np.corrcoef(moved)[np.triu_indices(6, 1)])) < 0.1
    assert all(given[2] is n for given in seen)
    assert np.median(found / x) == pytest.approx(4 * math.sqrt(2), rel=0.2)  # of terms that cancel


def test_a_row_stands_in_where_no_input_moves():
    x, n = np.array([[3.0, 4.0]]), np.array([[3, 4]])
    row = [[math.sqrt(12.5)] * 2]
    for reference, inputs in (
        (lambda given: [given[0] * 1.0], [n]),
        (lambda given: [given[0][:0]], [x]),
        (lambda given: [], [x]),
        (lambda given: {}[0], [x]),
    ):
        (found,) = estimated(np, reference, inputs, [x], [Rounded(1e-5, 2.0**-24)]).with_neighbours(np)
        assert np.allclose(found, row)
    (found,) = estimated(np, lambda given: [given[1] * 1.0], [n, x], [x], [Rounded(1e-5, 2.0**-24)]).with_neighbours(np)
    assert not np.allclose(found, row)


def test_exact_and_empty_outputs_have_no_magnitude():
    x = np.array([3.0 + 4.0j])
    outputs = [x, np.zeros((0, 3)), np.zeros(2)]
    rounded = [Rounded(1e-5, 2.0**-24)] * 2 + [Rounded(0.0, 0.0)]
    found = estimated(np, lambda given: [given[0], outputs[1], outputs[2]], [x], outputs, rounded).with_neighbours(np)
    assert found[1:] == [None, None]
    assert found[0].dtype == float
    assert 5 <= found[0][0] < 40


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3, 4), (3, 2500), (2, 1024)])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_a_rows_magnitude_is_its_root_mean_square(shape, dtype):
    rng = np.random.default_rng(2)
    value = (rng.uniform(-1, 1, shape) * (1 + 2j if dtype == "complex64" else 1)).astype(dtype)
    found = of_row(np, value)
    squares = (np.abs(value.astype("complex128")) ** 2).reshape(-1)
    expected = neighbours(list(squares), min(shape[-1] if shape else 1, 1024))
    assert found.shape == shape
    assert np.allclose(found.reshape(-1), np.sqrt(expected), rtol=1e-12)


def test_what_does_not_round_or_is_empty_has_no_rows_magnitude():
    assert of_row(np, np.arange(3)) is None
    assert of_row(np, np.zeros((2, 0))) is None
    assert np.array_equal(of_row(np, np.array([math.inf, 2.0])), [math.sqrt(2)] * 2)


def in_float32(reference, x, tolerance=1e-5, unit=2.0**-24, redrawn=lambda seed: [np.ones(1)]):
    """What an element's bound allows it to be off besides its own rounding, with the reference's error in float32."""
    (before,) = estimated(np, reference, [x], reference([x]), [Rounded(tolerance, unit)]).with_neighbours(np)
    (after,) = with_rounding(np, reference, [x], [before], [Rounded(tolerance, unit)], redrawn=redrawn)
    return tolerance * before, tolerance * after


def test_a_float32_references_error_is_allowed():
    x = np.full(64, 5e-4)
    before, after = in_float32(lambda given: [1 - np.cos(given[0])], x)
    off = np.abs((np.float32(1) - np.cos(x.astype("float32"))) - (1 - np.cos(x)))
    assert (before < off).all()
    assert (after > off).all()


def test_a_choice_next_to_a_limit_may_be_that_in_float32():
    x = np.array([2.0**-24 - 1, -4.0, -1.5] * 32)  # 3 less than the largest is -4 in float32
    _, after = in_float32(lambda given: [np.where(given[0] >= given[0].max() - 3, given[0], -9)], x)
    assert (after[1::3] > 5).all()
    assert (after[::3] < 2).all()


def test_of_few_elements_one_rounding_is_allowed():
    def gelu(given):
        erf = np.vectorize(math.erf)
        return [0.5 * given[0] * (1 + np.asarray(erf(given[0].astype("float64") / 2**0.5)))]

    x = np.array([-5.6])
    before, after = in_float32(gelu, x, redrawn=lambda seed: [np.random.default_rng(seed).uniform(-6, 6, 1)])
    off = abs(float(gelu([x])[0][0]))  # 1 + erf is 0 in float32
    assert before[0] < off < after[0] < 1e-5


def in_a_range(seed):
    return [np.random.default_rng(seed).uniform(-60, 60, 128)]


def test_what_cancels_in_float64_too_is_allowed_its_rounding():
    x = np.full(128, -60.0)
    before, after = in_float32(lambda given: [np.log(1 + np.exp(given[0]))], x, redrawn=in_a_range)  # all zero
    assert (before < np.log1p(np.exp(x))).all()
    assert (after > np.log1p(np.exp(x))).all()
    assert (after < 1e-14).all()


@pytest.mark.parametrize("reference", [np.square, np.abs, lambda x: np.maximum(x, 0.0), np.exp])
def test_where_nothing_cancels_no_more_is_allowed(reference):
    x = np.linspace(-1e-17, 1e-17, 128)
    before, after = in_float32(lambda given: [reference(given[0])], x, redrawn=in_a_range)
    assert (after <= np.maximum(2 * before, 1e-6 * np.abs(reference(x)))).all()


def test_a_sum_is_allowed_no_more_than_its_terms_ask_for():
    x = np.random.default_rng(0).uniform(-1, 1, (8, 512))
    before, after = in_float32(lambda given: [given[0].sum(axis=1)], x)
    assert (after < 2 * before).all()


def test_where_only_float32_overflows_nothing_is_known():
    x = np.array([1.0, 100.0] * 16)
    _, after = in_float32(lambda given: [np.exp(given[0]) / (1 + np.exp(given[0]))], x)
    assert np.isfinite(after[::2]).all()
    assert np.isinf(after[1::2]).all()


@np.errstate(over="ignore")
def test_a_moderate_result_may_not_overflow_on_the_way():
    def reference(given):
        return [np.exp(given[0]) / np.exp(given[1])]

    x, by = np.full(4, 100.0), np.array([100.0, 95, 80, 120])
    moved = np.abs(reference([x, by])[0])
    rounded = [Rounded(1e-5, 2.0**-24)]

    def excused(beyond):
        (found,) = with_rounding(
            np, reference, [x, by], [moved], rounded, redrawn=lambda _: [x, by], overflows_beyond=beyond
        )
        return list(np.isinf(found))

    assert excused(0.0) == [True] * 4
    assert excused(1024.0) == [False, False, True, True]
    assert excused(np.inf) == [False] * 4


def test_a_reference_that_takes_no_float32_changes_nothing():
    def strict(given):
        if given[0].dtype != np.float64:
            raise TypeError("float64 alone")
        return [given[0] * 2]

    before, after = in_float32(strict, np.ones(32))
    assert (before == after).all()


@np.errstate(all="ignore")
def test_nothing_is_known_where_the_reference_overflows():
    x = np.array([1.0, 1e9] * 32)
    _, softmax = in_float32(lambda given: [np.exp(given[0]) / (1 + np.exp(given[0]))], x)
    assert np.isfinite(softmax[::2]).all()
    assert np.isnan(softmax[1::2]).all()
    x[2] = 0.0
    _, inverse = in_float32(lambda given: [1 / given[0]], x)
    assert not np.isnan(inverse).any()


def test_results_of_inputs_that_are_alike_are_rounded_as_others_are():
    def gelu(given):
        return [0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) for x in given]

    x = np.full(128, -4.1)
    found = [
        with_rounding(
            np,
            gelu,
            [x],
            [np.abs(gelu([x])[0])],
            [Rounded(1e-5, 2.0**-24)],
            redrawn=lambda seed: [np.linspace(-6, 6, 128)],
            alike=alike,
        )[0]
        for alike in (False, True)
    ]
    one_rounding_of_a_sum = 0.5 * 4.1 * 2.0**-24
    assert (1e-5 * found[0] < one_rounding_of_a_sum).all()
    assert (1e-5 * found[1] > one_rounding_of_a_sum).all()


def test_conditions_are_arrays_as_cupy_takes_them():
    def where(condition, one, other):
        return np.where(condition.astype("bool"), one, other)

    module = SimpleNamespace(**vars(np) | {"where": where})
    x = np.full(64, 5e-4)
    (found,) = with_rounding(
        module, lambda given: [1 - np.cos(given[0])], [x], [x], [Rounded(1e-5, 2.0**-24)], redrawn=lambda seed: [x]
    )
    assert (found > x).any()


def of_choice(given):
    """The first of two inputs where a third is positive, else the second: exact in any type."""
    return [np.where(given[2] > 0, given[0], given[1])]


@pytest.mark.parametrize(
    ("reference", "raised"),
    [
        (of_choice, False),
        (lambda given: [2 * np.abs(given[0])], False),
        (lambda given: [given[0] * 1.1], True),
        (lambda given: [of_choice(given)[0].astype("float64")], True),  # which hides how a float32 kernel rounds
    ],
)
def test_neighbours_do_not_count_where_nothing_is_rounded(reference, raised):
    rng = np.random.default_rng(2)
    inputs = [rng.uniform(1, 2, 256).astype("float32").astype("float64") for _ in range(3)]
    inputs[0][::64] *= 2.0**20
    values = reference(inputs)
    moved = estimated(np, reference, inputs, values, [Rounded(1e-5, 2.0**-24)])
    (found,) = moved.with_neighbours(np, exact_in_float32(reference, inputs, values))
    assert (np.median(found / np.abs(values[0])) > 100) == raised
    (alone,) = moved.alone(np)
    assert np.median(alone / np.abs(values[0])) < 10
