"""Input data that shows mistakes: what each pattern holds, and which problems get it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from peakgate.core import dtypes
from peakgate.core.case import Buffer, Role
from peakgate.measure.data import PATTERNS, inputs_of, patterned
from synthetic_cases import make_case


def problem(*, shape=(40, 60), dtype="float32", data=None, **changes):
    arguments = (Buffer(Role.OUT, shape, dtype), Buffer(Role.IN, shape, dtype, data))
    return replace(make_case(), arguments=arguments, **changes)


def data_of(pattern, **described):
    (found,) = inputs_of(np, patterned([problem(**described)])[PATTERNS.index(pattern)])
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "complex64"])
def test_reals_stay_in_the_range_of_random_data(pattern, dtype):
    values = data_of(pattern, dtype=dtype)
    assert np.isfinite(values).all()
    assert np.abs(values).max() <= 1
    assert np.unique(values).size > 5


def test_rows_and_columns_have_mixed_magnitudes():
    values = np.abs(data_of("mixed"))
    rows, columns = values.mean(axis=1), values.mean(axis=0)
    assert rows.max() > 20 * rows.min()
    assert columns.max() > 5 * columns.min()


def test_neighbours_nearly_cancel():
    values = data_of("cancelling").reshape(-1)
    assert np.allclose(values[::2] + values[1::2], values[::2] / 64, atol=1e-6)


def test_powers_of_two_are_exact():
    assert set(np.unique(np.frexp(np.abs(data_of("powers")))[0])) == {0.5}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "int64", "int4", "uint4"])
def test_integers_are_at_their_limits(dtype):
    values = data_of("mixed", dtype=dtype)
    limits = dtypes.limits(dtype)
    assert {int(limits.lowest), 0} <= {int(values.min()), 0, *map(int, np.unique(values))}
    assert float(values.max()) == limits.largest


def test_the_smallest_problem_of_four_kibibytes_is_taken():
    problems = [problem(shape=(1, 1), size="tiny"), problem(size="small"), problem(shape=(400, 600), size="large")]
    assert [each.size for each in patterned(problems)] == ["small"] * len(PATTERNS)
    assert [each.variant for each in patterned(problems)] == list(PATTERNS)
    assert patterned(problems[:1])[0].size == "tiny"


def test_given_data_and_saved_results_are_left_alone():
    assert patterned([problem(data=(0, 1)), problem(reference=(Path("saved.npy"),))]) == []
