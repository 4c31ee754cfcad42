import ml_dtypes
import numpy as np
import pytest
from peakgate.core import dtypes
from peakgate.core.case import Buffer, Role
from peakgate.core.errors import PeakgateError
from peakgate.measure.data import input_array, random_array, saved_array


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
def test_random_numbers_of_a_narrow_float_fill_the_range_and_differ(dtype):
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
def test_saved_arrays_and_functions_give_a_narrow_type_as_values_or_as_its_own_elements(tmp_path, dtype, form):
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
