"""Input data that shows mistakes: what each pattern holds, and which problems get it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from peakgate.core import dtypes
from peakgate.core.case import Buffer, Role
from peakgate.measure.data import inputs_of
from peakgate.measure.patterns import PATTERNS, patterned, varied
from synthetic_cases import make_case


def problem(*, shape=(40, 60), dtype="float32", data=None, **changes):
    arguments = (Buffer(Role.OUT, shape, dtype), Buffer(Role.IN, shape, dtype, data))
    return replace(make_case(), arguments=arguments, **changes)


def data_of(pattern, **described):
    (found,) = inputs_of(np, patterned([problem(**described)])[PATTERNS.index(pattern)])
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "complex64"])
def test_reals_are_finite_and_but_for_large_ones_below_one(pattern, dtype):
    values = data_of(pattern, dtype=dtype)
    assert np.isfinite(values).all()
    assert float(np.abs(values).max()) <= (1.5 * 2**20 if pattern == "large" else 1.5)
    assert np.unique(values).size > 5


def test_large_numbers_overflow_exponentials_and_squares_of_halves():
    values = data_of("large", dtype="float16").astype("float64")
    assert np.exp(np.abs(values[::2]).max()) > float(np.finfo("float32").max)
    assert 2 * np.abs(values[::2]).max() ** 2 > float(np.finfo("float16").max)
    assert (values[2] <= 0).all()
    assert (values[3] <= 0).all()
    assert np.abs(values[1::2]).max() > 1e4


def test_large_numbers_become_no_integers():
    quantized = replace(problem(), arguments=(Buffer(Role.OUT, (40, 60), "int8"), Buffer(Role.IN, (40, 60))))
    assert [each.variant for each in patterned([quantized])] == ["mixed", "cancelling", "powers"]
    assert len(patterned([problem(dtype="int8")])) == len(PATTERNS)


def test_rows_and_columns_have_mixed_magnitudes():
    values = np.abs(data_of("mixed"))
    rows, columns = values.mean(axis=1), values.mean(axis=0)
    assert rows.max() > 20 * rows.min()
    assert columns.max() > 5 * columns.min()


def test_neighbours_nearly_cancel():
    values = data_of("cancelling").reshape(-1)
    assert np.allclose(values[::2] + values[1::2], values[::2] / 64, atol=1e-6)


def test_powers_of_two_are_exact_and_many_are_equal():
    values = data_of("powers")
    assert set(np.unique(np.frexp(np.abs(values))[0])) == {0.0, 0.5}
    assert np.unique(values).size == 15
    assert np.signbit(values[values == 0]).any()
    assert (values[8:16, 1:] == values[8, 0]).all()  # a block of rows alike


def test_one_dimension_has_long_runs_and_quiet_parts():
    powers = data_of("powers", shape=(4000,))
    assert (powers[1001:2000] == powers[1000]).all()
    mixed = np.abs(data_of("mixed", shape=(4000,)))
    assert mixed[6 * 64 : 7 * 64].max() < 2.0**-23 < mixed[:64].max()


def test_complex_patterns_have_both_parts():
    for pattern in PATTERNS:
        values = data_of(pattern, dtype="complex64")
        assert np.unique(values.imag).size > 5


INTEGERS = ["int8", "uint8", "int32", "uint64", "int64", "int4", "uint4"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_at_their_limits(dtype):
    values = data_of("large", dtype=dtype)
    limits = dtypes.limits(dtype)
    assert {int(limits.lowest), 0} <= {int(values.min()), 0, *map(int, np.unique(values))}
    assert float(values.max()) == limits.largest


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_of_every_length_powers_and_opposites_stay_in_their_type(dtype):
    limits = dtypes.limits(dtype)
    mixed, opposite, powers = (data_of(pattern, dtype=dtype) for pattern in ("mixed", "cancelling", "powers"))
    for values in (mixed, opposite, powers):
        assert float(values.min()) >= limits.lowest
        assert float(values.max()) <= limits.largest
    lengths = {abs(int(value)).bit_length() for value in mixed.reshape(-1)}
    assert len(lengths) > 0.9 * np.log2(limits.largest)
    assert 0 in powers
    assert all(abs(int(value)).bit_count() <= 1 for value in powers.reshape(-1))
    flat = opposite.reshape(-1)
    if dtype != "uint4":  # which has no opposite
        sums = (flat[::2] + flat[1::2]).astype(flat.dtype)
        assert (sums == 0).mean() > 0.7  # the lowest of 4 bits has no opposite


def test_truth_values_take_every_pattern():
    for pattern in PATTERNS:
        assert set(data_of(pattern, dtype="bool").reshape(-1).tolist()) == {False, True}


@pytest.mark.parametrize(("dtype", "low", "high"), [("float32", -4, 4), ("bfloat16", 0.5, 1.5), ("int32", 3, 1000)])
def test_a_range_is_kept_to_and_its_ends_are_met(dtype, low, high):
    (ranged,) = patterned([problem(dtype=dtype, data=(low, high))])
    (values,) = inputs_of(np, ranged)
    assert ranged.variant.endswith("powers")
    assert values.min() == low
    assert values.max() < high
    assert np.unique(values).size < 10


def test_the_smallest_problem_of_four_kibibytes_is_taken():
    problems = [problem(shape=(1, 1), size="tiny"), problem(size="small"), problem(shape=(400, 600), size="large")]
    assert [each.size for each in patterned(problems)] == ["small"] * len(PATTERNS)
    assert [each.variant for each in patterned(problems)] == list(PATTERNS)
    assert patterned(problems[:1])[0].size == "tiny"


def test_given_data_and_saved_results_are_left_alone():
    given = problem(data=lambda xp, shape: xp.ones(shape))
    assert patterned([given, problem(reference=(Path("saved.npy"),))]) == []
    assert varied([given]) == [given]


def test_each_problem_large_enough_has_a_pattern_of_its_own():
    tiny = problem(shape=(1, 1), size="tiny")
    sizes = [problem(shape=(40, 60 + at), size=f"of_{at}") for at in range(len(PATTERNS) + 1)]
    assert [each.variant for each in varied([tiny, *sizes])] == ["", *PATTERNS, ""]
    few = varied([tiny, *sizes[:2]])
    assert [each.variant for each in few] == ["", *PATTERNS]
    assert [each.size for each in few] == ["tiny", "of_0", "of_1", "of_0", "of_0"]
