"""The types that NumPy lacks: every bit pattern against ml_dtypes, and what is refused."""

import ml_dtypes
import numpy as np
import pytest

from peakgate.base.errors import PeakgateError
from peakgate.spec import dtypes
from peakgate.spec.arguments import value_of
from peakgate.spec.case import Buffer, Role, Scalar, Struct

FLOATS = sorted(dtypes.BITS.keys() - {dtypes.SCALE})
PACKED = sorted(dtypes.PACKED)


def every_pattern(dtype):
    stored = dtypes.storage(dtype)
    return np.arange(1 << 8 * stored.itemsize).astype(f"uint{8 * stored.itemsize}")


def of_ml_dtypes(dtype):
    return np.dtype(getattr(ml_dtypes, dtype))


def by_ml_dtypes(values, dtype):
    """The nearest numbers of the type as ml_dtypes has them, of an 8-bit float no farther than its largest."""
    largest = np.float32(np.inf if dtype == "bfloat16" else dtypes.limits(dtype).largest)
    return np.clip(values, -largest, largest).astype(of_ml_dtypes(dtype))


def same(found, wanted):
    """Equal numbers with equal signs; NaN stands for NaN."""
    numbers = (found == wanted) & (np.signbit(found) == np.signbit(wanted))
    return bool((numbers | np.isnan(found) & np.isnan(wanted)).all())


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_pattern_has_its_value_and_goes_back_to_itself(dtype):
    bits = every_pattern(dtype)
    values = dtypes.decoded(np, bits, dtype)
    assert values.dtype == np.float32
    with np.errstate(invalid="ignore"):  # signalling NaNs
        assert same(values, bits.view(of_ml_dtypes(dtype)).astype(np.float32))
    numbers = np.isfinite(values) | (dtype == "bfloat16") & np.isinf(values)
    assert (dtypes.encoded(np, values, dtype) == bits)[numbers].all()
    assert np.isnan(dtypes.decoded(np, dtypes.encoded(np, values[np.isnan(values)], dtype), dtype)).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_halfway_and_beside_are_rounded_to_nearest_even(dtype):
    numbers = dtypes.decoded(np, every_pattern(dtype), dtype)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    halfway = ((numbers[1:].astype(np.float64) + numbers[:-1]) / 2).astype(np.float32)
    for values in (halfway, np.nextafter(halfway, np.float32(np.inf)), np.nextafter(halfway, np.float32(-np.inf))):
        wanted = by_ml_dtypes(values, dtype).astype(np.float32)
        assert same(dtypes.decoded(np, dtypes.encoded(np, values, dtype), dtype), wanted)


def test_a_double_is_rounded_once():
    just_above_halfway = np.array([1 + 2.0**-8 + 2.0**-40])
    assert dtypes.decoded(np, dtypes.encoded(np, just_above_halfway, "bfloat16"), "bfloat16") == 1 + 2.0**-7


@pytest.mark.parametrize(
    ("dtype", "infinite", "large"),
    [("bfloat16", np.inf, np.inf), ("float8_e4m3fn", 448, 448), ("float8_e5m2", 57344, 57344)],
)
def test_an_8_bit_float_saturates_and_bfloat16_overflows(dtype, infinite, large):
    found = dtypes.decoded(np, dtypes.encoded(np, np.array([np.inf, -np.inf, 1e300, -1e300, -0.0]), dtype), dtype)
    assert found.tolist() == [infinite, -infinite, large, -large, 0]
    assert np.signbit(found[4])


@pytest.mark.parametrize("dtype", PACKED)
def test_two_elements_share_a_byte_the_first_in_its_low_half(dtype):
    bytes_ = np.arange(256, dtype=np.uint8).reshape(4, 64)
    values = dtypes.decoded(np, bytes_, dtype)
    assert values.shape == (4, 128)
    assert values.dtype == dtypes.value_type(dtype)
    assert (dtypes.encoded(np, values, dtype) == bytes_).all()
    first, second = values[0, 2 * 0x2F], values[0, 2 * 0x2F + 1]
    assert (first, second) == {"int4": (-1, 2), "uint4": (15, 2), "float4_e2m1fn": (-6, 1)}[dtype]


def test_a_4_bit_float_rounds_to_even_and_saturates():
    values = np.array([0.25, 0.75, -0.26, 2.5, 3.5, 4.99, 5.0, 5.01, -7.0, np.inf, np.nan, -0.0])
    found = dtypes.decoded(np, dtypes.encoded(np, values, "float4_e2m1fn"), "float4_e2m1fn")
    assert found.tolist() == [0, 1, -0.5, 2, 4, 4, 4, 6, -6, 6, 6, 0]
    assert np.signbit(found[-1])
    assert dtypes.below("float4_e2m1fn", 6.0) == 4.0


def test_a_scale_is_a_power_of_two_without_zero_or_sign():
    bits = every_pattern(dtypes.SCALE)
    values = dtypes.decoded(np, bits, dtypes.SCALE)
    assert (values[:255] == 2.0 ** (np.arange(255) - 127.0)).all()
    assert np.isnan(values[255])
    assert (dtypes.encoded(np, values, dtypes.SCALE) == bits).all()
    found = dtypes.decoded(np, dtypes.encoded(np, np.array([0.0, -1.0, np.inf, 1.4, 1.6]), dtypes.SCALE), dtypes.SCALE)
    assert found[[0, 2, 3, 4]].tolist() == [2.0**-127, 2.0**127, 1, 2]
    assert np.isnan(found[1])
    assert dtypes.limits(dtypes.SCALE).unit_roundoff == 0


def test_values_outside_four_bits_are_clipped():
    values = np.array([0.5, 1.5, -0.5, -9, 100, 6.6])
    assert dtypes.decoded(np, dtypes.encoded(np, values, "int4"), "int4").tolist() == [0, 2, 0, -8, 7, 7]
    assert dtypes.decoded(np, dtypes.encoded(np, values, "uint4"), "uint4").tolist() == [0, 2, 0, 0, 15, 7]


def test_a_type_of_numpy_is_its_own_storage():
    array = np.arange(6, dtype=np.int16)
    assert dtypes.decoded(np, array, "int16") is array
    assert (dtypes.storage("int16"), dtypes.storage_shape((3, 1), "int16")) == (np.int16, (3, 1))
    assert dtypes.encoded(np, array, "float16").dtype == np.float16


@pytest.mark.parametrize(
    ("dtype", "kind", "expected"),
    [
        ("bfloat16", "float", (2.0**-8, 2.0**-126, 2.0**-133, 2.0**128 - 2.0**120)),
        ("float8_e4m3fn", "float", (2.0**-4, 2.0**-6, 2.0**-9, 448)),
        ("float8_e5m2", "float", (2.0**-3, 2.0**-14, 2.0**-16, 57344)),
        ("float16", "float", (2.0**-11, 2.0**-14, 2.0**-24, 65504)),
        ("float64", "float", (2.0**-53, 2.0**-1022, 2.0**-1074, np.finfo(np.float64).max)),
        ("complex64", "complex", (2.0**-24, 2.0**-126, 2.0**-149, np.finfo(np.float32).max)),
        ("int4", "int", (0, 1, 1, 7)),
        ("uint4", "uint", (0, 1, 1, 15)),
        ("int32", "int", (0, 1, 1, 2**31 - 1)),
        ("bool", "bool", (0, 1, 1, 1)),
    ],
)
def test_the_limits_of_a_type(dtype, kind, expected):
    found = dtypes.limits(dtype)
    assert found.kind == kind
    assert (found.unit_roundoff, found.smallest_normal, found.smallest_step, found.largest) == expected


@pytest.mark.parametrize(
    "dtype",
    [
        "half",
        "float",
        "f4",
        "longdouble",
        "bfloat",
        "float8_e4m3",
        "int5",
        "S3",
        "object",
        ml_dtypes.float8_e4m3b11fnuz,
    ],
)
def test_an_unknown_type_of_a_buffer_or_value_is_one_line(dtype):
    for made in (lambda: Buffer(Role.IN, (4,), dtype), lambda: Scalar(1, dtype)):
        with pytest.raises(ValueError, match="type") as caught:
            made()
        assert "\n" not in str(caught.value)


def test_the_nearest_known_name_is_given():
    with pytest.raises(PeakgateError, match="did you mean 'bfloat16'"):
        dtypes.storage("bfloat")
    for given, meant in (("float8_e4m3", "float8_e4m3fn"), ("half", "float16"), ("float", "float32")):
        with pytest.raises(PeakgateError, match=f"did you mean {meant!r}"):
            dtypes.storage(given)


def test_a_row_of_an_odd_number_of_half_bytes_is_refused():
    with pytest.raises(ValueError, match="even length"):
        Buffer(Role.IN, (4, 3), "int4")
    with pytest.raises(ValueError, match="even length"):
        Buffer(Role.IN, (), "uint4")
    assert Buffer(Role.IN, (4, 6), "int4").nbytes == 12
    assert Buffer(Role.IN, (4, 3), "bfloat16").nbytes == 24


def test_values_and_members_of_structs_are_passed_as_their_bits():
    assert value_of(Scalar(1.5, "bfloat16")).tobytes() == np.array(1.5, ml_dtypes.bfloat16).tobytes()
    assert value_of(Scalar(1000, "float8_e4m3fn")).tobytes() == np.array(448, ml_dtypes.float8_e4m3fn).tobytes()
    struct = Struct((1.0, 0.1, 3), (("scale", "float32"), ("bias", "bfloat16"), ("byte", "uint8")))
    layout = np.dtype([("scale", "f4"), ("bias", ml_dtypes.bfloat16), ("byte", "u1")], align=True)
    assert value_of(struct).tobytes()[:7] == np.array([(1.0, 0.1, 3)], layout)[0].tobytes()[:7]  # then padding


def test_half_a_byte_is_no_argument_by_value():
    for made in (lambda: Scalar(1, "int4"), lambda: Struct((1,), (("a", "uint4"),))):
        with pytest.raises(ValueError, match="half a byte"):
            made()
