import numpy as np
import pytest
from peakgate.common.errors import PeakgateError
from peakgate.measure.data import random_array


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_values_fill_the_range_from_minus_one_to_one(dtype):
    values = random_array(np, (257, 130), dtype, seed=0)
    assert values.dtype == dtype
    assert values.shape == (257, 130)
    assert -1 <= values.min() < -0.99
    assert 0.99 < values.max() < 1


def test_no_two_elements_of_an_integer_array_are_equal():
    values = random_array(np, (100_000,), "uint32", seed=3)
    assert len(np.unique(values)) == values.size


def test_the_same_seed_gives_the_same_bits_and_another_seed_others():
    first, again, other = (random_array(np, (1000,), "float32", seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_longer_array_begins_like_a_shorter_one_of_the_same_seed():
    assert np.array_equal(random_array(np, (50,), "float32", 7), random_array(np, (500,), "float32", 7)[:50])


def test_an_unknown_type_is_named():
    with pytest.raises(PeakgateError, match="complex64"):
        random_array(np, (4,), "complex64", 0)
