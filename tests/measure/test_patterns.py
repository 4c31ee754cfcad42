"""Input data that shows mistakes: what each pattern holds, and which problems get it."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from synthetic_cases import make_case

from peakgate.measure.data import inputs_of
from peakgate.measure.patterns import NOTHING_NAMED, PATTERNS, Named, largest_without_overflow, redrawn, varied
from peakgate.spec import dtypes
from peakgate.spec.case import Buffer, Role


def problem(*, shape=(40, 60), dtype="float32", data=None, **changes):
    arguments = (Buffer(Role.OUT, shape, dtype), Buffer(Role.IN, shape, dtype, data))
    return replace(make_case(), arguments=arguments, **changes)


def patterned(problems, named=NOTHING_NAMED):
    """The problem that has every pattern."""
    return varied(problems, named).problems[len(problems) :]


def data_of(pattern, named=NOTHING_NAMED, **described):
    (case,) = (each for each in patterned([problem(**described)], named) if each.variant == pattern)
    return inputs_of(np, case)[0]


LARGEST = {"large": 2**31, "alike": 2**31, "equal": 2**31, "mixed": 104, "powers": 8}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "complex64"])
def test_reals_are_finite_and_moderate_but_for_large_ones(pattern, dtype):
    values = data_of(pattern, dtype=dtype)
    assert np.isfinite(values).all()
    assert float(np.abs(values).max()) <= 1.5 * LARGEST.get(pattern, 1)
    assert np.unique(values).size > {"equal": 0, "alike": 1}.get(pattern, 5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "int8"])
@pytest.mark.parametrize(("pattern", "sign"), [("alike", 1), ("equal", -1)])
def test_all_numbers_are_of_one_sign_and_alike(pattern, sign, dtype):
    values = sign * data_of(pattern, dtype=dtype).astype("float64")
    assert values.min() >= 0.6 * min(dtypes.limits(dtype).largest, 2**31)
    assert values.max() < values.min() * 1.1


@pytest.mark.parametrize(
    ("dtype", "data", "sign"), [("float32", (0.1, 3), 1), ("int32", (-9, -2), -1), ("uint8", None, 1)]
)
def test_numbers_of_one_sign_are_those_that_a_range_has(dtype, data, sign):
    for pattern in ("alike", "equal"):
        values = data_of(pattern, dtype=dtype, data=data)
        assert (sign * values.astype("float64") > 0).all()
        assert not data or data[0] <= values.min() <= values.max() < data[1]


@pytest.mark.parametrize(("dtype", "data"), [("float32", None), ("float32", (0.1, 3)), ("int32", (3, 50))])
def test_equal_numbers_are_not_zero_and_sum_up_exactly(dtype, data):
    arguments = (*problem(dtype=dtype, data=data).arguments, Buffer(Role.IN, (40, 60), dtype, data))
    (case,) = (each for each in patterned([replace(problem(), arguments=arguments)]) if each.variant == "equal")
    first, second = inputs_of(np, case)
    assert np.unique(first).size == np.unique(second).size == 1
    assert first[0, 0] != second[0, 0]
    product = first[0, 0] * second[0, 0]
    assert np.full(600_000, product).cumsum(dtype=first.dtype)[-1] == 600_000 * float(product) != 0
    assert (data_of("equal", dtype=dtype, data=(0, 2)) > 0).all()


def test_rows_are_sorted_and_inputs_differ_in_last_elements_alone():
    arguments = (*problem().arguments, Buffer(Role.IN, (40, 60), "float32"), Buffer(Role.IN, (40, 61), "float32"))
    case = patterned([replace(problem(), arguments=arguments)])[PATTERNS.index("sorted")]
    first, second, third = inputs_of(np, case)
    assert (np.diff(first[::2]) >= 0).all()
    assert (np.diff(first[1::2]) <= 0).all()
    assert (first[:, :-1] == second[:, :-1]).all()
    assert (first[1::4] == second[1::4]).all()
    assert (first[2::4] == second[2::4]).all()
    assert (first[::4, -1] > second[::4, -1]).all()
    assert (first[3::4, -1] < second[3::4, -1]).all()
    assert (first[:, :60] != third[:, :60]).any()


def test_large_numbers_overflow_exponentials_and_squares():
    values = data_of("large", dtype="float16").astype("float64")
    assert np.exp(np.abs(values[:4]).max()) > float(np.finfo("float32").max)
    assert 2 * np.abs(values[:4]).max() ** 2 > float(np.finfo("float16").max)
    assert np.abs(values[4:8]).max() > 1e4


def test_large_numbers_meet_small_ones_in_the_problem_with_all_patterns():
    arguments = (*problem().arguments, Buffer(Role.IN, (40, 60), "float32"))
    case = patterned([replace(problem(), arguments=arguments)])[PATTERNS.index("large")]
    first, second = (np.abs(each).max(axis=1) > 256 for each in inputs_of(np, case))
    assert (~first & second).any()
    assert (first & ~second).any()
    assert (first & second).any()


@pytest.mark.parametrize(("shape", "alike"), [((40, 60), 4), ((4, 1000), 1), ((3000,), 4 * 61)])
def test_large_numbers_of_one_sign_stay_far_from_zero(shape, alike):
    values = data_of("large", shape=shape)
    assert values[2 * alike : 3 * alike].max() <= -(2**30)
    assert values[3 * alike : 4 * alike].min() >= 2**30


@pytest.mark.parametrize("shape", [(40, 60), (16, 130), (65540,)])
def test_large_numbers_are_of_several_sizes(shape):
    values = data_of("large", shape=shape)
    rows = np.abs(values[: values.size // 61 * 61].reshape(-1, 61) if len(shape) == 1 else values).max(axis=1)
    for smallest, largest in ((1024, 4096), (2**17, 2**20), (2**25, 2**28), (2**29, 2**31)):
        assert ((rows > smallest) & (rows < largest)).any()


def test_large_numbers_become_no_integers():
    quantized = replace(problem(), arguments=(Buffer(Role.OUT, (40, 60), "int8"), Buffer(Role.IN, (40, 60))))
    assert [each.variant for each in patterned([quantized])] == [*PATTERNS[:-1]]
    assert max(np.abs(inputs_of(np, each)[0]).max() for each in patterned([quantized])) <= 16
    assert len(patterned([problem(dtype="int8")])) == len(PATTERNS)


def test_rows_and_columns_have_mixed_magnitudes():
    values = np.abs(data_of("mixed"))
    rows, columns = values.mean(axis=1), values.mean(axis=0)
    assert rows.max() > 20 * rows.min()
    assert columns.max() > 5 * columns.min()


@pytest.mark.parametrize("shape", [(40, 60), (4, 10, 60), (2440,), (40, 1)])
def test_one_number_of_few_mixed_rows_overflows_exponentials(shape):
    values = data_of("mixed", shape=shape)
    outliers = values[np.abs(values) > 90]
    assert 0 < outliers.size < np.prod(shape) / 6
    assert outliers.min() < 0 < outliers.max() < 104


def test_results_of_moderate_size_may_not_overflow_on_the_way():
    def up_to(*buffers):
        return largest_without_overflow(replace(problem(), arguments=buffers))

    (mixed,) = (each.inputs[0] for each in patterned([problem()]) if each.variant == "mixed")
    declared, open_to_all = Buffer(Role.IN, (4,), data=(0, 90)), Buffer(Role.IN, (4,))
    assert up_to(declared) == math.inf > up_to(declared, mixed) == 1024
    assert up_to(declared, mixed, open_to_all) == up_to(replace(mixed, dtype="int32")) == 0


def test_neighbours_nearly_cancel():
    values = data_of("cancelling").reshape(-1)
    assert np.allclose(values[::2] + values[1::2], values[::2] / 64, atol=1e-6)


def test_powers_of_two_are_exact_and_many_are_equal():
    values = data_of("powers")
    ones = 2.0**-24
    assert set(np.unique(np.frexp(np.abs(values))[0])) == {0.0, 0.5, 0.5 + ones, 0.75, 1 - ones}
    assert np.unique(values).size == 19 + 16
    assert 0 < np.abs(values[values != 0]).min() < 1e-12
    assert np.signbit(values[values == 0]).any()
    assert (values[5:10, 1:-1] == 0).all()  # a block of rows alike
    assert (values[5:10:4] == 0).all()
    assert (values[[7, 18], -1] != [0, 1]).any()
    assert (values[15:20, 1:-1] == 1).all()


@pytest.mark.parametrize("shape", [(64, 60), (64 * 61,)])
def test_no_large_number_is_alone_among_zeros(shape):
    for data, largest in ((None, 1), ((-6, 6), 0)):
        rows = data_of("powers", shape=shape, data=data).reshape(64, -1)[8:16]
        assert (rows[:, 1:-1] == 0).all()
        assert np.abs(rows).max() == largest


def test_one_dimension_has_long_runs_and_quiet_parts():
    powers = data_of("powers", shape=(61 * 64,)).reshape(64, 61)
    assert (powers[8:16:4] == 0).all()
    assert (powers[24:32, 1:-1] == 1).all()
    mixed = np.abs(data_of("mixed", shape=(4000,)))
    assert mixed[6 * 61 : 7 * 61].max() < 2.0**-23 < mixed[:61].max()


def test_complex_patterns_have_both_parts():
    for pattern in PATTERNS:
        values = data_of(pattern, dtype="complex64")
        assert values.imag.any()
        assert pattern == "equal" or np.unique(values.imag).size > 1


INTEGERS = ["int8", "uint8", "int32", "uint64", "int64", "int4", "uint4"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_at_their_limits(dtype):
    values = data_of("large", dtype=dtype)
    limits = dtypes.limits(dtype)
    assert {int(limits.lowest), 0} <= {int(values.min()), 0, *map(int, np.unique(values))}
    assert float(values.max()) == limits.largest


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_powers_and_opposites_stay_in_their_type(dtype):
    limits = dtypes.limits(dtype)
    mixed, opposite, powers = (data_of(pattern, dtype=dtype) for pattern in ("mixed", "cancelling", "powers"))
    for values in (mixed, opposite, powers):
        assert float(values.min()) >= limits.lowest
        assert float(values.max()) <= limits.largest
    lengths = {abs(int(value)).bit_length() for value in mixed.reshape(-1)}
    assert len(lengths) > 0.9 * np.log2(limits.largest)
    assert 0 in powers
    nines = 10 ** (len(str(int(limits.largest))) - 1) - 1
    assert all(abs(int(value)).bit_count() <= 1 or value == nines for value in powers.reshape(-1))
    flat = opposite.reshape(-1)
    if dtype != "uint4":  # which has no opposite
        sums = (flat[::2] + flat[1::2]).astype(flat.dtype)
        assert (sums == 0).mean() > 0.7  # the lowest of 4 bits has no opposite


def test_truth_values_take_every_pattern():
    for case in patterned([problem(dtype="bool")]):
        assert set(inputs_of(np, case)[0].reshape(-1).tolist()) == {False, True}


RANGES = [("float32", -4, 4), ("bfloat16", 0.5, 1.5), ("int32", 3, 1000), ("int64", -(2**63), 2**63), ("uint8", 0, 256)]


@pytest.mark.parametrize(("dtype", "low", "high"), RANGES)
def test_a_range_is_kept_to_and_its_ends_are_met(dtype, low, high):
    found = {each.variant: inputs_of(np, each)[0] for each in patterned([problem(dtype=dtype, data=(low, high))])}
    near_zero = ["mixed"] if "float" in dtype and low <= 0 else []
    assert set(found) == {"sorted", "alike", "equal", "powers", "large", *near_zero}
    for values in found.values():
        assert values.min() >= low
        assert values.max() < high
    assert found["powers"].min() == low
    assert np.unique(found["powers"]).size < 42
    assert float(found["large"].min()) >= high - (high - low) / 4 - 1


def test_a_range_is_met_at_one_and_minus_one_if_it_has_them():
    def few(low, high):
        return set(inputs_of(np, patterned([problem(data=(low, high))])[-2])[0].reshape(-1).tolist())

    assert {-1, 1} <= few(-1.7, 1.6)
    assert few(-0.7, 1.6) & {-1, 1} == {1}


@pytest.mark.parametrize("data", [None, (-1.1, 1.0), (3.45, 5.5), (3, 100), (-300, 600), (1e5, 2e5)])
def test_halves_above_even_and_odd_numbers_show_rounding(data):
    values = data_of("powers", data=data)
    halves = np.unique(values[values % 1 == 0.5])
    assert set(np.floor(halves) % 2) == {0, 1}
    assert (values % 1 == 0).any()


@pytest.mark.parametrize(
    ("dtype", "data", "power"),
    [
        ("float32", None, 8),
        ("float32", (0.001, 1e6), 2**19),
        ("float64", (-1, 1), 0.25),
        ("float16", None, 0.25),
        ("bfloat16", (3, 100), 64),
        ("float32", (-3.0, 1.5), 0.5),
    ],
)
def test_numbers_just_below_and_above_a_power_of_two_are_tried(dtype, data, power):
    unit = dtypes.limits(dtype).unit_roundoff
    values = data_of("powers", dtype=dtype, data=data).astype("float64")
    assert {power * (1 - unit), power * (1 + 2 * unit)} <= set(values.flat)
    assert not data or data[0] <= values.min() <= values.max() < data[1]


def test_a_range_that_has_zero_is_met_near_it_too():
    (mixed,) = (each for each in patterned([problem(data=(0, 3), shape=(200, 60))]) if each.variant == "mixed")
    rows = inputs_of(np, mixed)[0].max(axis=1)
    assert rows.max() > 2
    assert rows.min() < 1e-3


def test_the_second_range_is_met_at_its_other_end():
    arguments = (*problem(data=(-4, 4)).arguments, Buffer(Role.IN, (40, 60), "float32", (10, 18)))
    first, second = inputs_of(np, patterned([replace(problem(), arguments=arguments)])[-1])
    assert first.min() >= 1.99
    assert second.max() <= 12.01


def test_the_smallest_problem_with_room_is_taken():
    problems = [
        problem(shape=(1, 1), size="tiny"),
        problem(shape=(60, 60), size="small"),
        problem(shape=(400, 600), size="large"),
    ]
    long = problem(shape=(3, 900), size="long")
    assert [each.size for each in patterned([long, *problems])] == ["small"] * len(PATTERNS)
    assert [each.variant for each in patterned(problems)] == list(PATTERNS)
    assert patterned(problems[:1])[0].size == "tiny"
    assert patterned([problem(shape=(999,), size="short"), problem(shape=(1030,))])[0].size != "short"


def test_given_data_and_saved_results_are_left_alone():
    given = [problem(data=lambda xp, shape: xp.ones(shape)), problem(reference=(Path("saved.npy"),))]
    assert [*varied(given).problems] == given
    assert not varied(given).plain


def test_the_largest_problems_have_a_pattern_each():
    tiny = problem(shape=(1, 1), size="tiny")
    sizes = [problem(shape=(80, 60 + at), size=f"of_{at}") for at in range(len(PATTERNS) + 2)]
    found = varied([tiny, *sizes])
    assert [each.variant for each in found.problems] == ["", "", "", *PATTERNS, *PATTERNS]
    assert {each.size for each in found.problems[-len(PATTERNS) :]} == {"of_0"}
    few = varied([tiny, *sizes[:2]]).problems
    assert [(each.size, each.variant) for each in few[:3]] == [("tiny", ""), ("of_0", ""), ("of_1", "large")]
    assert [each.size for each in few[3:]] == ["of_0"] * len(PATTERNS)


def test_a_problem_without_its_pattern_is_at_hand():
    sizes = [problem(shape=(80, 60 + at), size=f"of_{at}") for at in range(3)]
    found = varied(sizes)
    assert [found.plain.get(each.id) for each in found.problems[:3]] == [None, *sizes[1:]]
    assert not any(each.id in found.plain for each in found.problems[3:])


def test_a_few_long_rows_have_room_for_one_pattern():
    found = varied([problem(shape=(60, 60), size="small"), problem(shape=(4, 9000), size="long")])
    assert [each.variant for each in found.problems[:2]] == ["", "large"]


NAMED = Named(reals=(3.0, 100.0, 0.75), integers=(100.0, 1000.0))


@pytest.mark.parametrize(
    ("given", "held", "missing"),
    [
        ({}, [3.0, -3.0, 3 + 3 / 64, 3 - 3 / 64, 100.0, 1.0, 0.0], [1000.0]),
        ({"data": (0.0, 5.0)}, [3.0, 0.75, 0.0], [-3.0, 100.0]),
        ({"dtype": "int32"}, [100, 99, 101, -100, 1000, 0, 1 << 20], [3]),
        ({"dtype": "uint8"}, [100, 99, 101, 128], [3]),
        ({"dtype": "int32", "data": (0, 500)}, [100, 99, 101, 0, 499, 399], [1000, -100]),
    ],
)
def test_named_numbers_and_their_neighbours_are_among_few(given, held, missing):
    values = data_of("powers", NAMED, **given)
    assert set(held) <= set(values.flat)
    assert not set(missing) & set(values.flat)
    of_few = np.isin(values, data_of("powers", **given))
    assert 0.4 <= of_few.mean() < 1


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint8"])
def test_a_literal_at_the_limit_of_a_type_is_kept_in_it(dtype):
    limits = Named(integers=(2.0**31, 2.0**63 - 1, 2.0**64))
    values = data_of("powers", limits, dtype=dtype)
    assert np.iinfo(dtype).min <= values.min() < values.max() <= np.iinfo(dtype).max


@pytest.mark.parametrize("pattern", [each for each in PATTERNS if each != "powers"])
def test_other_patterns_have_no_named_numbers(pattern):
    assert np.array_equal(data_of(pattern, NAMED), data_of(pattern))


@pytest.mark.parametrize(("dtype", "nines"), [("int32", 999_999_999), ("uint8", 99), ("uint64", 10**19 - 1)])
def test_whole_numbers_have_the_largest_one_of_nines(dtype, nines):
    assert nines in data_of("powers", dtype=dtype)


def test_numbers_to_quantize_are_named_up_to_16():
    arguments = (Buffer(Role.OUT, (40, 60), "int32"), Buffer(Role.IN, (40, 60), "float32"))
    (case,) = (
        each for each in patterned([replace(make_case(), arguments=arguments)], NAMED) if each.variant == "powers"
    )
    (values,) = inputs_of(np, case)
    assert 3.0 in values
    assert np.abs(values).max() < 8.01


@pytest.mark.parametrize("data", [None, (0, 100)])
def test_other_inputs_have_the_same_range_and_pattern(data):
    plain = problem(shape=(2000,), dtype="int32", data=data)
    for case in (plain, *patterned([plain])):
        (own,), (other,) = inputs_of(np, case), redrawn(np, case, 2)
        assert own.dtype == other.dtype
        assert own.shape == other.shape
        assert (own != other).any() or case.variant in ("alike", "equal")  # one integer of a range is enough
        assert data is None or (other.min() >= 0 and other.max() < 100)
        assert np.array_equal(other, redrawn(np, case, 2)[0])


def test_given_data_and_saved_results_have_no_other_inputs():
    assert redrawn(np, problem(), 0) is None
    assert redrawn(np, problem(reference=(Path("saved.npy"),)), 2) is None
    assert redrawn(np, problem(data=lambda xp, shape: xp.ones(shape)), 2) is None
