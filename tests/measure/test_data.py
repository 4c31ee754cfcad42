import ml_dtypes
import numpy as np
import pytest

from peakgate.base.errors import PeakgateError
from peakgate.measure.data import input_array, random_array, random_bits, saved_array, specials
from peakgate.spec import dtypes
from peakgate.spec.case import Buffer, Role


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_values_fill_the_range_from_minus_one_to_one(dtype):
    values = random_array(np, (257, 130), dtype, seed=0)
    assert values.dtype == dtype
    assert values.shape == (257, 130)
    assert -1 <= values.min() < -0.99
    assert 0.99 < values.max() < 1


def test_no_two_random_words_are_equal():
    assert len(np.unique(random_bits(np, 100_000, seed=3))) == 100_000


@pytest.mark.parametrize("dtype", ["int16", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64"])
def test_drawn_data_have_ties_zeros_and_limits(dtype):
    stored = random_array(np, (20_000,), dtype, seed=0)
    values = dtypes.decoded(np, stored, dtype)
    assert 400 < (values[1:] == values[:-1]).sum() < 900
    assert 80 < (values == 0).sum() < 300
    assert set(specials(dtype).tolist()) <= set(stored.tolist())


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_every_bit_of_64_is_drawn(dtype):
    words = random_array(np, (20_000,), dtype, seed=0).view("uint64")
    for bit in range(64):
        assert 0.4 < (words >> np.uint64(bit) & np.uint64(1)).mean() < 0.6


def test_doubles_have_all_53_bits():
    scaled = random_array(np, (20_000,), "float64", seed=0) * 2.0**52
    assert 0.4 < (scaled % 2 == 1).mean() < 0.6


@pytest.mark.parametrize(("dtype", "step"), [("bfloat16", 2.0**-7), ("float16", 2.0**-10)])
def test_short_floats_have_many_exponents(dtype, step):
    values = dtypes.decoded(np, random_array(np, (20_000,), dtype, seed=0), dtype).astype("float64")
    assert len(np.unique(np.frexp(values)[1])) > 10
    assert (values % step != 0).mean() > 0.4  # no integers in disguise


@pytest.mark.parametrize(("low", "high"), [(-(1 << 63), 1 << 63), (0, 1 << 40), (-5, (1 << 62) + 1)])
def test_a_wide_range_of_integers_is_drawn_whole(low, high):
    values = input_array(np, Buffer(Role.IN, (20_000,), "int64", data=(low, high)), 1)
    assert values.min() < low + (high - low) // 100
    assert values.max() > low + (high - low) // 100 * 99
    assert {int(value) & 1 for value in values} == {0, 1}


def test_the_same_seed_gives_the_same_bits():
    first, again, other = (random_array(np, (1000,), "float32", seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_random_truth_values_are_both():
    values = random_array(np, (1000,), "bool", seed=1)
    assert values.dtype == bool
    assert 400 < values.sum() < 600


def test_a_longer_array_begins_like_a_shorter_one():
    assert np.array_equal(random_array(np, (50,), "float32", 7), random_array(np, (500,), "float32", 7)[:50])


def test_an_unknown_type_is_named():
    with pytest.raises(PeakgateError, match="longdouble"):
        random_array(np, (4,), "longdouble", 0)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64", "float16", "float32", "float64"])
def test_a_range_is_kept_to_and_its_values_differ(dtype):
    values = input_array(np, Buffer(Role.IN, (4096,), dtype, data=(2, 9)), seed=3)
    assert values.dtype == dtype
    assert values.min() >= 2
    assert values.max() < 9
    assert len(np.unique(values)) > 6


def test_a_number_and_a_function_fill_an_input():
    assert (input_array(np, Buffer(Role.IN, (3, 2), "int32", data=7), 0) == 7).all()
    ramp = Buffer(Role.IN, (5,), "float32", data=lambda xp, shape: xp.arange(shape[0]))
    assert list(input_array(np, ramp, 0)) == [0, 1, 2, 3, 4]


def test_complex_numbers_have_random_parts():
    values = input_array(np, Buffer(Role.IN, (1000,), "complex64"), 1)
    assert values.dtype == "complex64"
    assert abs(values.real.mean()) < 0.1
    assert len(np.unique(values.imag)) > 900


@pytest.mark.parametrize(
    ("buffer", "reported"),
    [
        (Buffer(Role.IN, (3,), data=lambda xp, shape: xp.zeros(4)), r"gives float64 \(4,\), expected float32 \(3,\)"),
        (Buffer(Role.IN, (3,), "int32", data=lambda xp, shape: xp.zeros(3)), "gives float64"),
        (Buffer(Role.IN, (3,), data=(2, 2)), "is empty"),
    ],
)
def test_input_data_that_does_not_fit_is_one_line(buffer, reported):
    with pytest.raises(PeakgateError, match=reported):
        input_array(np, buffer, 0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_random_numbers_of_a_narrow_float_fill_the_range(dtype):
    stored = random_array(np, (257, 130), dtype, seed=0)
    assert stored.dtype == dtypes.storage(dtype)
    values = dtypes.decoded(np, stored, dtype)
    assert -1 <= values.min() < -0.8
    assert 0.8 < values.max() < 1
    assert len(np.unique(values)) > 100
    assert len(np.unique(np.frexp(values)[1])) > 5


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_random_half_bytes_take_every_value(dtype):
    stored = random_array(np, (64, 130), dtype, seed=0)
    assert stored.shape == (64, 65)
    assert len(np.unique(dtypes.decoded(np, stored, dtype))) == 16


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"])
@pytest.mark.parametrize("data", [(-3, 5), 3, lambda xp, shape: xp.full(shape, 3), lambda xp, shape: [[3] * 8] * 4])
def test_numbers_ranges_and_functions_fill_a_narrow_type(dtype, data):
    stored = input_array(np, Buffer(Role.IN, (4, 8), dtype, data), 1)
    assert stored.dtype == dtypes.storage(dtype)
    values = dtypes.decoded(np, stored, dtype)
    assert values.shape == (4, 8)
    assert ((values >= -3) & (values < 5)).all()
    assert isinstance(data, tuple) or (values == 3).all()


GIVEN = {
    "values": lambda values, dtype: values,
    "its own type": lambda values, dtype: values.astype(getattr(ml_dtypes, dtype)),
    "stored bits": lambda values, dtype: dtypes.encoded(np, values, dtype),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
@pytest.mark.parametrize("form", GIVEN)
def test_a_narrow_type_is_given_as_values_or_as_elements(tmp_path, dtype, form):
    values = np.array([[0, 1, 2, 6], [4, 5, 6, 7]], dtypes.value_type(dtype))
    array, file = GIVEN[form](values, dtype), tmp_path / "x.npy"
    np.save(file, array)
    for data in (file, lambda xp, shape: array):
        if (dtype, form, data) == ("float8_e5m2", "its own type", file):
            with pytest.raises(PeakgateError, match="as float32"):  # numpy.load reads no file of this type
                saved_array(file, (2, 4), dtype)
            continue
        stored = input_array(np, Buffer(Role.IN, (2, 4), dtype, data), 0)
        assert (stored == dtypes.encoded(np, values, dtype)).all()


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("float8_e4m3fn", 1000),
        ("float8_e4m3fn", (0, 1000)),
        ("int4", 8),
        ("int4", (0, 16)),
        ("uint8", (0, 257)),
        ("int32", (1.2, 1.8)),
        ("float8_e4m3fn", (0.1001, 0.1002)),
        ("int4", lambda xp, shape: xp.zeros(shape)),
        ("int4", lambda xp, shape: xp.zeros((2, 1), "uint8")),
        ("bfloat16", lambda xp, shape: xp.zeros(shape, "complex64")),
        ("bool", (0, 1)),
    ],
)
def test_what_a_type_does_not_hold_is_refused_in_one_line(dtype, data):
    with pytest.raises(PeakgateError, match="input data"):
        input_array(np, Buffer(Role.IN, (2, 4), dtype, data), 0)
