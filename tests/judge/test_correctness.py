"""Every element is held to a bound of its own, whatever other elements are."""

import math
import re
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from expecting import refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_cases import make_case

from peakgate.base.errors import Code
from peakgate.device.expected import computed
from peakgate.family import TOLERANCES, tolerance_of_sums
from peakgate.judge import correctness
from peakgate.judge.correctness import (
    ExpectedOutputs,
    Largest,
    NothingCompared,
    bound_of,
    check,
    compare,
    refuse_one_number,
)
from peakgate.spec.case import Buffer, Role
from peakgate.spec.dtypes import decoded, encoded

EXACT = make_case(tolerance=0.0)
NEAR = make_case(tolerance=1e-6)


def judged(case, *outputs_and_references, compared=None, magnitudes=None):
    """``check`` on pairs of an output and its reference."""
    outputs, references = zip(*outputs_and_references, strict=True)
    return check(np, case, outputs, ExpectedOutputs(references, [lambda: magnitudes] if magnitudes else ()), compared)


def writing(case, *dtypes):
    """The case with outputs of these types."""
    buffers = tuple(Buffer(Role.OUT, (8, 4), dtype) for dtype in dtypes)
    return replace(case, arguments=buffers)


def test_an_error_within_its_bound_is_right():
    reference = np.full((8, 4), 2.0)
    output = (reference * (1 + 4e-7)).astype(np.float32)
    result = judged(NEAR, (output, reference))
    assert result.right
    assert 1e-7 < result.error < 1e-6
    assert 0.1 < result.ratio < 0.6
    equal = judged(EXACT, (output, output.copy()))
    assert (equal.right, equal.error, equal.ratio) == (True, 0, 0)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_an_8_bit_float_is_right_by_its_rounding_alone(dtype):
    random = np.random.default_rng(0)
    exact = random.uniform(-1, 1, (512, 32)) * 2.0 ** random.integers(-8, 8, (512, 32))
    case = replace(make_case(tolerance=TOLERANCES[dtype]), arguments=(Buffer(Role.OUT, exact.shape, dtype),))
    for factor, right in ((1.0, True), (1.07, False)):
        of_bfloat16 = decoded(np, encoded(np, factor * exact, "bfloat16"), "bfloat16")
        output = decoded(np, encoded(np, of_bfloat16, dtype), dtype)
        assert judged(case, (output, exact)).right == right


def test_a_reference_of_another_shape_is_a_programming_error():
    with pytest.raises(ValueError, match=r"\(4, 8\)"):
        judged(EXACT, (np.zeros((8, 4)), np.zeros((4, 8))))


def test_outputs_without_a_reference_each_are_counted():
    with pytest.raises(ValueError, match=r"^synthetic.*: 2 outputs, but the reference gives 1$"):
        check(np, EXACT, [np.zeros(1), np.zeros(1)], ExpectedOutputs([np.zeros(1)]))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_softmax_whose_small_elements_are_zero_is_wrong(dtype):
    logits = 4 * np.random.default_rng(0).standard_normal((64, 1024))
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    reference = powers / powers.sum(axis=1, keepdims=True)
    case = writing(make_case(tolerance=TOLERANCES[dtype]), dtype)
    output = reference.astype(dtype)
    assert judged(case, (output, reference)).right
    limit = TOLERANCES[dtype] * reference.max()
    assert np.mean(output < limit) > 0.7
    assert not judged(case, (np.where(output < limit, 0, output).astype(dtype), reference)).right


@settings(deadline=None, max_examples=50)
@given(row=st.integers(0, 7), power=st.integers(-60, 60), wrong=st.integers(0, 7), seed=st.integers(0, 99))
def test_an_element_is_right_whatever_the_size_of_other_rows(row, power, wrong, seed):
    reference = np.random.default_rng(seed).uniform(0.5, 1, (8, 4))
    output = reference.copy()
    output[wrong, 1] *= 1 + 3e-6
    loud = np.where(np.arange(8)[:, None] == row, 2.0**power, 1.0)
    assert not judged(NEAR, (output * loud, reference * loud)).right


def test_an_integer_output_must_be_equal_beside_one_that_rounds():
    value, index = np.ones((8, 4), np.float16), np.full((8, 4), 7, np.int32)
    off = index.copy()
    off[2, 2] = 8
    for dtypes, right, wrong in (
        (("float16", "int32"), [(value, value), (index, index)], [(value, value), (off, index)]),
        (("int32", "float16"), [(index, index), (value, value)], [(off, index), (value, value)]),
    ):
        case = writing(make_case(tolerance=0.2), *dtypes)
        assert judged(case, *right).right
        assert not judged(case, *wrong).right


def test_integers_alone_may_be_off_by_a_share_of_the_largest():
    case = writing(make_case(tolerance=0.01), "int8")
    reference = np.arange(-16, 16, dtype=np.int8).reshape(8, 4) * np.int8(7)
    assert judged(case, (reference + np.int8(1), reference)).right
    assert not judged(case, (reference + np.int8(2), reference)).right


def test_each_output_has_its_own_of_several_tolerances():
    case = replace(writing(make_case(), "float32", "float32"), tolerance=(1e-3, 1e-6))
    ones = np.ones((8, 4), np.float32)
    near = ones * np.float32(1 + 1e-4)
    assert judged(case, (near, ones), (ones, ones)).right
    assert judged(case, (ones, ones), (near, ones)).mismatch.startswith("output 1")
    assert judged(case, (ones, ones), (near, ones)).worst.output == 1
    with pytest.raises(ValueError, match="one for each of 2 outputs"):
        replace(case, tolerance=(1e-3,))


def test_a_sum_that_cancels_is_right_by_the_magnitude_of_terms():
    reference, output = np.full((8, 4), 1e-7), np.full((8, 4), 2e-7)
    assert not judged(NEAR, (output, reference)).right
    assert judged(NEAR, (output, reference), magnitudes=[np.ones((8, 1))]).right
    assert not judged(NEAR, (output, reference), magnitudes=[np.full((8, 1), 1e-2)]).right


def test_an_output_that_must_be_equal_is_else_infinitely_off():
    result = compare(np, np.ones(3), np.array([1.0, 1.0, 2.0]), correctness.ErrorBound())
    assert (result.error, result.ratio) == (math.inf, math.inf)
    assert "allowed" not in result.mismatch


def test_atol_and_rtol_are_numpys():
    case = replace(writing(make_case(), "float32"), atol=0.5, rtol=0.25)
    reference = np.array([[0.0, 2.0], [4.0, -4.0]])
    allowed = 0.5 + 0.25 * np.abs(reference)
    assert judged(case, (reference + allowed, reference)).right
    assert not judged(case, (reference + allowed * 1.001, reference)).right
    assert judged(case, (reference - allowed, reference)).right


def test_the_recorded_error_is_of_finite_references():
    result = judged(NEAR, (np.array([1.0, 0.5]), np.array([math.inf, 0.25])))
    assert (result.error, result.worst.wrong, result.worst.output) == (1.0, 2, 0)


def test_a_result_that_an_older_rule_passed_names_both_criteria():
    case = writing(make_case(tolerance=2.0**-17), "float32")
    reference = np.array([[64.0, 1.0]])
    output = np.array([[64.0, 1 + 2.0**-11]], np.float32)
    mismatch = judged(case, (output, reference)).mismatch
    assert "tolerance 7.63e-06" in mismatch
    assert "largest element" in mismatch
    assert "GELU" not in mismatch
    output[0, 1] = 2
    assert "as before" not in judged(case, (output, reference)).mismatch
    assert "as before" not in judged(replace(case, rtol=0.1), (np.ones(1), np.array([math.inf]))).mismatch


def test_only_an_error_of_the_size_of_cancelled_ones_is_called_that():
    x = np.array([[-5.0, 0.01, 3.0]])
    gelu = x / 2 * np.array([[math.erfc(-each / math.sqrt(2)) for each in x[0]]])
    for found, hinted in (
        (np.array([[gelu[0, 0] * 1.04, *gelu[0, 1:]]]), True),  # as 1 + erf(x) in float32
        (gelu * np.array([[1, 1.01, 1]]), False),
        (gelu * np.array([[0.0, 1, 1]]) + np.array([[1e-6, 0, 0]]), False),
        (gelu * (1 + 1e-3), False),
    ):
        result = judged(writing(make_case(tolerance=1e-5), "float32"), (found.astype(np.float32), gelu))
        assert not result.right
        assert ("GELU" in result.mismatch) == hinted


@pytest.mark.parametrize(
    ("inputs", "off", "wrong", "hinted"),
    [
        ("float32", 1, 2, True),
        ("float32", -1, 1, True),
        ("float32", 2, 2, False),
        ("float32", 1, 60, False),
        ("int32", 1, 2, False),
    ],
)
def test_few_integers_off_by_one_may_be_ties(inputs, off, wrong, hinted):
    buffers = (Buffer(Role.IN, (100,), inputs), Buffer(Role.OUT, (100,), "int8"))
    case = replace(make_case(tolerance=0.0), arguments=buffers)
    wanted = np.arange(100, dtype="int8")
    found = wanted + np.where(np.arange(100) < wrong, off, 0).astype("int8")
    result = judged(case, (found, wanted))
    assert not result.right
    assert ("atol=1" in result.mismatch) == hinted
    assert judged(replace(case, atol=1), (found, wanted)).right == (abs(off) == 1)


def test_the_output_of_which_nothing_is_compared_is_named():
    case = replace(writing(make_case(), "int8", "float32"), atol=1)
    ones = np.full(4, 5, "int8")
    with pytest.raises(NothingCompared, match="output 1"):
        judged(case, (ones, ones.copy()), (np.full(4, 0.01, "float32"), np.full(4, 0.01)))


def test_a_negative_zero_that_is_expected_is_shown_as_zero():
    assert "expected 0," in judged(NEAR, (np.ones(2), np.array([-0.0, 1.0]))).mismatch


def test_a_result_that_is_nan_passes_by_no_rule():
    case = writing(make_case(tolerance=1e-5), "float32")
    for output, reference in ((math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0)):
        mismatch = judged(case, (np.full(2, output, np.float32), np.full(2, reference))).mismatch
        assert "as before" not in mismatch
        assert "nan, allowed" not in mismatch


@pytest.mark.parametrize("case", [EXACT, NEAR])
def test_nan_is_right_where_the_reference_is_nan(case):
    output = np.array([math.nan, 1.0], np.float32)
    assert judged(case, (output, output.astype("float64"))).right
    with pytest.raises(NothingCompared):
        judged(case, (output[:1], output[:1]))


@pytest.mark.parametrize(
    ("references", "one"),
    [
        ([np.full((2, 3), 7.0)], 7.0),
        ([np.zeros(3, bool), np.zeros(2, "int32")], 0),
        ([np.full(3, 1 + 2j)], 1 + 2j),
        ([np.full(3, 7.0), np.full(3, 8.0)], None),
        ([np.array([7.0, 7.0, 8.0])], None),
        ([np.zeros(0)], None),
    ],
)
def test_a_reference_of_one_number_everywhere_is_noticed(references, one):
    outputs = [each.view("uint8") if each.dtype.kind == "b" else each for each in references]
    case = make_case(tolerance=0.0, arguments=tuple(Buffer(Role.OUT, each.shape) for each in references))
    assert check(np, case, outputs, ExpectedOutputs(references)).one == one


def test_one_number_in_every_problem_proves_nothing():
    of_inputs, without = make_case(), make_case(arguments=(Buffer(Role.OUT, (8, 4)),))
    with refuses(Code.REFERENCE):
        refuse_one_number(of_inputs, {7.0})
    for case, met in ((of_inputs, {7.0, 8.0}), (of_inputs, {7.0, None}), (of_inputs, {None}), (without, {7.0})):
        refuse_one_number(case, met)


def test_magnitudes_whose_squares_overflow_are_no_error():
    wanted = np.array([1.0, 2.0])
    expected = ExpectedOutputs([wanted], [lambda: [np.sqrt(np.array([1e200, 1.0]) ** 2)]])
    assert check(np, NEAR, [np.array([2.0, 2.0])], expected).right


@pytest.mark.parametrize("reference", [math.inf, math.nan])
def test_any_number_is_right_where_the_reference_alone_overflows(reference):
    output, wanted = np.array([5.0, 1.0], np.float32), np.array([reference, 1.0])
    assert judged(NEAR, (output, wanted), magnitudes=[np.array([math.nan, 1.0])]).right
    assert not judged(NEAR, (output, wanted), magnitudes=[np.ones(2)]).right
    assert not judged(NEAR, (output + 1, wanted), magnitudes=[np.array([math.nan, 1.0])]).right


@pytest.mark.parametrize(("stored", "right"), [(0, False), (1, True), (2, False), (255, False)])
def test_a_truth_value_is_right_by_its_stored_byte(stored, right):
    memory = np.full(4, stored, "uint8").view("bool")
    case = writing(EXACT, "bool")
    launch = SimpleNamespace(case=case, outputs=[memory])
    assert judged(case, (computed(np, launch)[0], np.ones(4, "bool"))).right == right


def test_integers_are_named_with_all_of_their_digits():
    result = judged(EXACT, (np.array([2**60 + 1]), np.array([2**60])))
    assert f"is {2**60 + 1}, expected {2**60}" in result.mismatch


def test_rows_are_compared_as_many_at_a_time_as_memory_allows(monkeypatch):
    monkeypatch.setattr(correctness, "_ROWS_AT_A_TIME_BYTES", 200)
    taken = []

    class Recording(np.ndarray):
        def __getitem__(self, key):
            taken.append(key)
            return super().__getitem__(key)

    output = np.ones((8, 3, 4)).view(Recording)  # 96 bytes per row in float64
    assert judged(NEAR, (output, np.ones((8, 3, 4)))).right
    assert [(rows.start, rows.stop) for rows in taken] == [(0, 2), (2, 4), (4, 6), (6, 8)]
    monkeypatch.setattr(correctness, "_ROWS_AT_A_TIME_BYTES", 1)
    taken.clear()
    assert judged(NEAR, (output, np.ones((8, 3, 4)))).right
    assert [(rows.start, rows.stop) for rows in taken] == [(row, row + 1) for row in range(8)]


@pytest.mark.parametrize("tolerance", [0.0, 1e-5])
def test_complex_numbers_are_compared_part_by_part(tolerance):
    data = np.arange(32).reshape(8, 4) * np.complex64(1 + 2j)
    case = make_case(tolerance=tolerance)
    assert judged(case, (data, data.copy())).right
    wrong = data.copy()
    wrong[3, 1] = wrong[3, 1].conj()
    assert "26 (imaginary part)" in judged(case, (wrong, data)).mismatch
    wrong[0], wrong[4] = 1 + 1j, np.nan
    assert "9 of 32" in judged(case, (wrong, data)).mismatch


def test_parts_of_complex_numbers_are_reported_as_these():
    wanted = np.arange(1.0, 37.0).reshape(2, 3, 6)
    found = wanted.copy()
    found[1, 2, 3] -= 9
    result = compare(np, found, wanted, correctness.ErrorBound(1.0), pairs=True)
    assert (result.worst.index, result.worst.wrong, result.worst.elements) == ((1, 2, 1, 1), 1, 18)
    assert all(each in result.mismatch for each in ("[1, 2, 1]", "expected 34", "(imaginary part)", "off by 9,"))
    found[0, 0, 4:] += 20
    result = compare(np, found, wanted, correctness.ErrorBound(1.0), pairs=True)
    assert (result.worst.index, result.worst.wrong, result.worst.elements) == ((0, 0, 2, 0), 2, 18)
    assert "2 of 18" in result.mismatch
    assert "(real part)" in result.mismatch


def test_parts_of_complex_numbers_are_off_by_their_own_magnitude():
    wanted = np.ones((2, 3, 4))
    found = wanted.copy()
    found[0, 0, 1] += 9
    found[1, 2, 3] += 9
    magnitude = np.array([[[100.0]], [[1.0]]])
    bound = correctness.ErrorBound(weighted=0.1)
    result = compare(np, found, wanted, bound, magnitudes=lambda: [magnitude], pairs=True)
    assert (result.worst.index, result.worst.wrong) == ((1, 2, 1, 1), 1)
    assert compare(np, found, wanted, bound, magnitudes=lambda: [magnitude * 100], pairs=True).right


def test_a_complex_reference_is_compared_part_by_part():
    wanted = np.ones((2, 2), np.complex64)
    assert judged(EXACT, (np.ones((2, 2), np.float32), wanted)).right
    result = judged(EXACT, (np.ones((2, 2), np.float32), wanted + 1j))
    assert (result.worst.index[-1], result.worst.wrong, result.worst.elements) == (1, 4, 4)


def test_an_error_that_once_passed_is_named_where_weighted():
    wanted, found = np.array([100.0, 1.0]), np.array([100.0, 2.0])
    for bound, named in (
        (correctness.ErrorBound(0.5, tolerance=0.1), False),
        (bound_of(0.1, "float32", "float32"), True),
    ):
        assert ("the largest element" in compare(np, found, wanted, bound).mismatch) == named


def test_complex_outputs_may_have_a_real_or_wider_reference():
    data = np.ones((2, 2), np.complex64)
    assert judged(EXACT, (data, np.ones((2, 2), np.float32))).right
    wrong = judged(EXACT, (data + 1j, np.ones((2, 2), np.float32))).worst
    assert (wrong.wrong, wrong.elements) == (4, 4)
    wide = np.full((2, 2), 1 + 2j, np.complex128)
    assert judged(NEAR, (wide.astype(np.complex64), wide)).right


def quick_by_numpy(found, wanted, bound, magnitude):
    """What a device's own comparison gives."""
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        difference = np.where(found == wanted, 0.0, np.abs(found - wanted))
        size = np.abs(wanted)
        allowed = bound.absolute + bound.relative * size
        allowed += bound.weighted * (size if magnitude is None else np.fmax(size, magnitude))
        ratio = np.where(difference == 0, 0.0, difference / allowed)
    return Largest(float(np.max(ratio)), float(np.max(difference)), float(np.max(size)))


@pytest.mark.parametrize("case", [EXACT, NEAR])
@pytest.mark.parametrize("changed", [1.0, 1 + 1e-7, 1 + 1e-3, 0.0, -0.0, math.nan, math.inf])
@pytest.mark.parametrize("reference", [1.0, 0.0, math.nan, math.inf])
def test_a_devices_own_comparison_changes_no_outcome(case, changed, reference):
    output, wanted = np.ones((3, 4), np.float32), np.ones((3, 4))
    output[1, 2], wanted[1, 2] = changed, reference
    with np.errstate(invalid="ignore"):
        assert repr(judged(case, (output, wanted), compared=quick_by_numpy)) == repr(judged(case, (output, wanted)))


# Magnitudes


def test_more_terms_allow_more_and_integers_none():
    assert tolerance_of_sums("float32", 64) < tolerance_of_sums("float32", 4096)
    assert tolerance_of_sums("float16", 64) == tolerance_of_sums("float32", 64)
    assert tolerance_of_sums("float64", 64) < 1e-14
    assert tolerance_of_sums("int32", 64) == 0


def test_sums_that_are_cut_at_each_step_stay_within_their_own_tolerance():
    terms, step, count = 16384, 16, 4000
    chunks = np.random.default_rng(1).normal(0, step**0.5, (terms // step, count))
    cut, rounded, exact = np.zeros(count, np.float32), np.zeros(count, np.float32), np.zeros(count)
    for chunk in chunks.astype(np.float32):
        rounded += chunk
        exact += chunk
        wide = cut.astype(np.float64) + chunk
        nearest = wide.astype(np.float32)
        cut = np.where(np.abs(nearest) > np.abs(wide), np.nextafter(nearest, np.float32(0)), nearest)
    units = {name: np.abs(each - exact).max() / terms**0.5 for name, each in (("cut", cut), ("rounded", rounded))}
    assert units["cut"] > 8 * units["rounded"]
    assert units["cut"] < tolerance_of_sums("bfloat16", terms, "bf16")
    assert tolerance_of_sums("bfloat16", terms) < tolerance_of_sums("bfloat16", terms, "bf16")
    assert tolerance_of_sums("bfloat16", 64, "bf16") < 1.2 * tolerance_of_sums("bfloat16", 64)


@settings(deadline=None, max_examples=25)
@given(terms=st.integers(1, 4096), seed=st.integers(0, 1000))
def test_sums_in_any_order_are_within_their_terms_tolerance(terms, seed):
    rng = np.random.default_rng(seed)
    a = rng.uniform(-1, 1, (32, terms)).astype(np.float32)
    reference, magnitude = a.astype(np.float64).sum(axis=1), np.sqrt((a.astype(np.float64) ** 2).sum(axis=1))
    bound = bound_of(tolerance_of_sums("float32", terms), "float32", "float64")
    for output in (np.cumsum(a, axis=1)[:, -1], np.cumsum(a[:, ::-1], axis=1)[:, -1], a.sum(axis=1)):
        assert compare(np, output, reference, bound, magnitudes=lambda: [magnitude]).right


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((1e-5, "float32", "float64", 0.0, None), (2.0**-126, 2.0**-24 + 2.0**-53, 1e-5)),
        ((1e-5, "float32", "float32", 0.0, None), (2.0**-125, 2.0**-23, 2e-5)),
        ((1e-3, "float16", "float64", 0.0, None), (2.0**-24, 2.0**-11 + 2.0**-53, 1e-3)),
        ((1e-3, "float16", "float16", 0.0, None), (2.0**-23, 2.0**-10, 2e-3)),
        ((1e-5, "float32", "float64", 0.25, None), (0.25, 0.0, 0.0)),
        ((1e-5, "float32", "float64", 0.0, 0.0), (0.0, 0.0, 0.0)),
        ((1e-5, "float32", "float64", 0.25, 0.5), (0.25, 0.5, 0.0)),
        ((0.0, "float32", "float64", 0.0, None), (0.0, 0.0, 0.0)),
        ((1e-5, "int32", "int64", 0.0, None), (0.0, 0.0, 0.0)),
    ],
)
def test_the_bound_of_each_type_and_tolerance(arguments, expected):
    tolerance, found, wanted, atol, rtol = arguments
    bound = bound_of(tolerance, found, wanted, atol=atol, rtol=rtol)
    assert (bound.absolute, bound.relative, bound.weighted) == expected
    assert bound.exact == (expected == (0.0, 0.0, 0.0))
    assert not bound.saturates


@pytest.mark.parametrize("terms", [(1.0, 0, 0), (0, 1.0, 0), (0, 0, 1.0)])
def test_a_bounds_term_allows_an_error_of_its_size_and_no_more(terms):
    bound = correctness.ErrorBound(*terms)
    wanted = np.ones((2, 3))
    assert not bound.exact
    for off, ratio in ((1.0, 1.0), (0.5, 0.5), (1.0625, 1.0625)):
        found = compare(np, wanted + off * np.eye(2, 3), wanted, bound)
        assert found.right == (off <= 1)
        assert found.ratio == ratio
        assert found.error == off


def test_a_quick_way_that_finds_all_right_is_believed():
    wanted, bound = np.full((2, 2), 4.0), correctness.ErrorBound(relative=0.5)

    def quick(*_):
        return Largest(*given_figures)

    rights = (((1.0, 2.0, 4.0), (0.5, 1.0)), ((0.5, 2.0, 0.0), (2.0, 0.5)), ((0.0, 0.0, 4.0), (0.0, 0.0)))
    for given_figures, expected in rights:  # noqa: B007  (`quick` gives them)
        found = compare(np, wanted + 9, wanted, bound, compared=quick)
        assert (found.error, found.ratio, found.mismatch) == (*expected, None)
    for given_figures in ((1.5, 2.0, 4.0), (math.nan, 2.0, 4.0), (0.5, 2.0, math.inf)):  # noqa: B007
        assert not compare(np, wanted + 9, wanted, bound, compared=quick).right
        assert compare(np, wanted, wanted, bound, compared=quick).right
    given_figures = (0.0, 2.0, 4.0)
    assert compare(np, wanted, wanted, correctness.ErrorBound(), compared=quick).error == 0
    empty = compare(np, wanted[:0], wanted[:0], bound)
    assert (empty.error, empty.ratio, empty.mismatch) == (0, 0, None)
    integers = np.ones((0, 2), np.int32)
    assert compare(np, integers, integers, correctness.ErrorBound(tolerance=0.1)).right


def test_a_magnitude_is_asked_only_where_it_decides():
    wanted = np.full((2, 2), 4.0)

    def unasked():
        raise AssertionError("asked")

    for bound, found in ((correctness.ErrorBound(weighted=0.5), wanted + 1), (correctness.ErrorBound(1.0), wanted + 2)):
        for compared in (None, quick_by_numpy):
            result = compare(np, found, wanted, bound, magnitudes=unasked, compared=compared)
            assert result.ratio == (0.5 if result.right else 2.0)


@pytest.mark.parametrize("on_host", [3, 4])
def test_a_wrong_output_is_the_same_whatever_compared_it(monkeypatch, on_host):
    monkeypatch.setattr(correctness, "_ON_HOST_ELEMENTS", on_host)
    device, looked, places = SimpleNamespace(**vars(np)), correctness._element_by_element, []
    monkeypatch.setattr(
        correctness,
        "_element_by_element",
        lambda xp, *given, **named: places.append(xp is device) or looked(xp, *given, **named),
    )
    wanted, bound = np.array([[-4.0, 1.0], [2.0, 0.5]]), correctness.ErrorBound(0.5, 0.25, 0.125, tolerance=0.125)
    found = wanted + np.array([[14.0, 0.0], [0.0, 0.0]])
    for magnitude, allowed in ((None, 2.0), (np.array([[8.0, 1.0]]), 2.5)):
        results = [
            compare(device, found, wanted, bound, magnitudes=lambda given=magnitude: [given], compared=compared)
            for compared in (None, quick_by_numpy)
        ]
        assert repr(results[0]) == repr(results[1])
        assert (results[0].ratio, results[0].error) == (14 / allowed, 14 / 4)
        assert results[0].worst == correctness.WrongElement((0, 0), 10.0, -4.0, 1, 4)
        figures = re.findall(r"-?\d[\d.]*", results[0].mismatch.partition("[")[2])
        assert figures == ["0", "0", "10", "-4", "14", f"{allowed:g}", "0.125"]
    # Without a quick way on the device, by the reference alone and by the magnitude; else once.
    assert places == [True, on_host < 4, True, True, on_host < 4]


def test_a_bound_is_of_the_cases_type_or_else_of_the_outputs():
    reference = np.array([[1.0, 3.0]])
    near = (reference * (1 + 2.0**-9)).astype(np.float32)
    assert judged(writing(make_case(tolerance=1e-9), "bfloat16"), (near, reference)).right
    assert not judged(writing(make_case(tolerance=1e-9), "float32"), (near, reference)).right
    callable_case = make_case(tolerance=1e-9, arguments=())
    assert judged(callable_case, (near.astype(np.float16), near.astype(np.float16).astype(float))).right
    assert not judged(callable_case, (near, reference)).right
    assert bound_of(1e-5, "float32", "float64") == bound_of(1e-5, "float32", "float64", atol=0.0, rtol=None)


def test_complex_numbers_have_one_magnitude_for_both_parts():
    wanted, bound = np.full((2, 2), 1 + 1j), correctness.ErrorBound(weighted=0.5)
    assert not compare(np, wanted + 2, wanted, bound).right
    assert compare(np, wanted + 2, wanted, bound, magnitudes=lambda: [np.array([[4.0], [-4.0]])]).right
    assert not compare(np, wanted + 2j, wanted, bound, magnitudes=lambda: [np.array([[4.0], [3.0]])]).right
    assert compare(np, np.ones((2, 2)), np.ones((2, 2), complex), bound).right
    assert not compare(np, np.ones((2, 2)), wanted, bound).right


@pytest.mark.parametrize(
    ("shape", "where", "words"),
    [
        ((8,), np.s_[3], " [3] is 2, expected 1"),
        ((8,), np.s_[2:4], ": 2 of 8 elements are wrong, all of elements 2 to 3; the worst [2] is"),
        ((8,), np.s_[[0, 5]], ": 2 of 8 elements are wrong, all of elements 0 to 5 in steps of 5; the worst [0]"),
        ((8,), np.s_[[0, 1, 5]], ": 3 of 8 elements are wrong, all of them; the worst"),
        ((12,), np.s_[[0, 1, 5]], ": 3 of 12 elements are wrong, all of 3 elements between 0 and 5; the worst"),
        ((11,), np.s_[[0, 1, 5]], ": 3 of 11 elements are wrong, all of them; the worst"),
        ((4, 1), np.s_[1:3], ": 2 of 4 elements are wrong, all of rows 1 to 2; the worst [1, 0] is"),
        ((4, 4), np.s_[[0, 1], [0, 1]], ": 2 of 16 elements are wrong, in the first 2 rows and the first 2 columns;"),
        ((4, 4), np.s_[[0, 1, 2, 3], [0, 1, 2, 3]], ": 4 of 16 elements are wrong, spread over the whole output; the"),
        ((4, 4), np.s_[:, 2:], ": 8 of 16 elements are wrong, all of the last 2 columns; the worst [0, 2] is"),
        ((2, 4, 4), np.s_[1, 1:3], ": 8 of 32 elements are wrong, all of plane 1 and rows 1 to 2; the worst [1, 1, 0]"),
        (
            (2, 2, 2, 2),
            np.s_[:, 1, :, 0],
            ": 4 of 16 elements are wrong, all of axis-1 position 1 and axis-3 position 0;",
        ),
        (
            (1, 1, 5, 2),
            np.s_[:, :, [1, 3]],
            ": 4 of 10 elements are wrong, all of axis-2 positions 1 to 3 in steps of 2;",
        ),
    ],
)
def test_the_place_of_wrong_elements_is_named_along_each_axis(shape, where, words):
    wanted = np.ones(shape)
    found = wanted.copy()
    found[where] = 2
    assert compare(np, found, wanted, correctness.ErrorBound()).mismatch.startswith(words)


def right_alone(output, reference, bound, magnitude):
    """Whether one number is right, by the sentences of ErrorBound."""
    if math.isnan(output) or math.isnan(reference):
        return math.isnan(output) and math.isnan(reference)
    if bound.saturates and not bound.exact:
        reference = min(max(reference, -bound.largest), bound.largest)
    if output == reference or bound.exact or math.isinf(reference):
        return output == reference
    size = abs(reference)
    allowed = bound.absolute + bound.relative * size + bound.weighted * max(size, magnitude or 0.0)
    if math.isinf(output):
        return output * reference > 0 and size + allowed >= bound.largest
    return abs(output - reference) <= allowed


@pytest.mark.parametrize("saturates", [False, True])
@pytest.mark.parametrize("largest", [8.0, math.inf])
@pytest.mark.parametrize("terms", [(0, 0, 0), (0.5, 0, 0), (0, 0.25, 0), (0, 0, 0.25), (0.25, 0.125, 0.125)])
def test_every_pair_is_judged_as_the_bounds_sentences_say(terms, largest, saturates):
    bound = correctness.ErrorBound(*terms, largest=largest, saturates=saturates)
    values = [
        math.nan,
        *(sign * size for size in (0.0, 0.5, 1.0, 6.0, 6.4, 7.5, 8.0, 10.0, math.inf) for sign in (1, -1)),
    ]
    magnitudes = [None, 4.0] if bound.weighted else [None]
    for output, reference, magnitude in product(values, values, magnitudes):
        broad = None if magnitude is None else np.array([[magnitude]])
        found = compare(
            np, np.array([[output]]), np.array([[reference]]), bound, magnitudes=lambda broad=broad: [broad]
        )
        expected = right_alone(output, reference, bound, magnitude)
        assert found.right == expected, (output, reference, magnitude)
        if expected:
            assert found.ratio <= 1
            assert math.isfinite(found.error)
        if expected and math.isfinite(reference) and math.isfinite(output) and magnitude is None and not saturates:
            size = abs(reference)
            allowed = terms[0] + (terms[1] + terms[2]) * size
            assert found.ratio == pytest.approx(abs(output - reference) / allowed if allowed else 0.0)
            assert found.error == pytest.approx(0.0 if bound.exact else abs(output - reference) / (size or 1.0))


def test_every_figure_is_the_largest_over_rows_and_slices(monkeypatch):
    wanted = np.arange(1.0, 25.0).reshape(4, 3, 2)
    bound = correctness.ErrorBound(absolute=8.0)
    for rows in range(1, 6):
        monkeypatch.setattr(correctness, "_ROWS_AT_A_TIME_BYTES", rows * 48)
        for at in np.ndindex(wanted.shape):
            found = wanted + 1
            found[at] += 3
            result = compare(np, found, wanted, bound)
            assert (result.right, result.ratio, result.error) == (True, 0.5, 4 / 24)
            found[at] += 8
            assert f"[{', '.join(map(str, at))}] is" in compare(np, found, wanted, bound).mismatch
            found[-1, -1, -1] = 24 + 12  # no worse than the first
            assert f"[{', '.join(map(str, at))}] is" in compare(np, found, wanted, bound).mismatch
