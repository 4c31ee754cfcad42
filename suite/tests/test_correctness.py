import math

import numpy as np
import pytest
from peakgate.judge import correctness
from peakgate.judge.correctness import check
from synthetic_cases import make_case

EXACT = make_case(tolerance=0.0)
NEAR = make_case(tolerance=1e-6)


def test_equal_bits_are_right():
    data = np.arange(32, dtype=np.float32).reshape(8, 4)
    result = check(np, EXACT, [data], [data.copy()])
    assert result.right
    assert result.error == 0


def test_one_wrong_element_is_named_with_both_values():
    data = np.ones((8, 4), np.float32)
    output = data.copy()
    output[5, 2] = 7
    result = check(np, EXACT, [output], [data])
    assert not result.right
    assert result.mismatch == "output 0 [5, 2] is 7, expected 1"


@pytest.mark.parametrize("case", [EXACT, NEAR])
def test_an_element_left_poisoned_is_wrong(case):
    data = np.ones((8, 4), np.float32)
    output = data.copy()
    output[7, 3] = math.nan
    result = check(np, case, [output], [data.astype(np.float64)])
    assert not result.right
    assert "[7, 3] is nan" in result.mismatch


def test_an_error_within_tolerance_is_right_and_reported():
    reference = np.full((8, 4), 2.0)
    output = (reference * (1 + 4e-7)).astype(np.float32)
    result = check(np, NEAR, [output], [reference])
    assert result.right
    assert 1e-7 < result.error < 1e-6


def test_a_reference_of_another_shape_is_a_programming_error():
    with pytest.raises(ValueError, match=r"\(4, 8\)"):
        check(np, EXACT, [np.zeros((8, 4))], [np.zeros((4, 8))])


@pytest.mark.parametrize("tolerance", [0.0, 1e-5])
def test_complex_numbers_are_compared_part_by_part(tolerance):
    data = np.arange(32).reshape(8, 4) * np.complex64(1 + 2j)
    case = make_case(tolerance=tolerance)
    assert check(np, case, [data], [data.copy()]).right
    wrong = data.copy()
    wrong[3, 1] = wrong[3, 1].conj()
    assert check(np, case, [wrong], [data]).mismatch == "output 0 [3, 1, 1] is -26, expected 26"


@pytest.mark.parametrize("case", [EXACT, NEAR])
def test_a_wrong_output_behind_a_right_one_is_named_by_its_position(case):
    data = np.ones((8, 4))
    wrong = data.copy()
    wrong[0, 0] = 3
    result = check(np, case, [data, wrong], [data, data])
    assert result.mismatch == "output 1 [0, 0] is 3, expected 1"
    assert result.error == (math.inf if case is EXACT else 2.0)


def test_outputs_without_a_reference_each_are_a_programming_error_that_counts_both():
    with pytest.raises(ValueError, match=r"^synthetic.*: 2 outputs, but the reference gives 1$"):
        check(np, EXACT, [np.zeros(1), np.zeros(1)], [np.zeros(1)])


def test_the_error_is_relative_to_the_largest_reference_and_absolute_where_that_is_zero():
    reference = np.array([[4.0, -8.0], [0.0, 2.0]])
    output = reference + np.array([[0.0, 0.0], [0.0, 1.0]])
    assert check(np, make_case(tolerance=0.5), [output], [reference]).error == 1 / 8
    assert check(np, make_case(tolerance=0.5), [np.full((2, 2), 0.25)], [np.zeros((2, 2))]).error == 0.25


def test_an_error_of_exactly_the_tolerance_is_right():
    reference = np.array([[4.0]])
    case = make_case(tolerance=0.25)
    assert check(np, case, [np.array([[5.0]])], [reference]).right
    assert not check(np, case, [np.array([[np.nextafter(5.0, 6.0)]])], [reference]).right


def test_differences_are_taken_in_float64_whatever_the_output_is():
    output, reference = np.array([200], np.uint8), np.array([250], np.uint8)
    assert check(np, make_case(tolerance=0.2), [output], [reference]).error == 0.2
    half, wide = np.array([1.0], np.float16), np.array([1.0 + 2.0**-13])
    assert 0 < check(np, make_case(tolerance=1e-3), [half], [wide]).error < 2.0**-12


@pytest.mark.parametrize("row", range(8))
@pytest.mark.parametrize("slice_bytes", [1, 32, 64, 96, 1 << 20])
def test_a_wrong_element_is_found_in_whichever_slice_it_is(monkeypatch, slice_bytes, row):
    monkeypatch.setattr(correctness, "_ROWS_AT_A_TIME_BYTES", slice_bytes)
    reference = np.ones((8, 4))
    output = reference.copy()
    output[row, 3] = 1.5
    result = check(np, NEAR, [output], [reference])
    assert result.mismatch == f"output 0 [{row}, 3] is 1.5, expected 1"
    assert result.error == 0.5


def test_no_more_rows_are_compared_at_a_time_than_memory_is_meant_for(monkeypatch):
    monkeypatch.setattr(correctness, "_ROWS_AT_A_TIME_BYTES", 200)
    taken = []

    class Recording(np.ndarray):
        def __getitem__(self, key):
            taken.append(key)
            return super().__getitem__(key)

    output = np.ones((8, 3, 4)).view(Recording)  # 96 bytes per row in float64
    assert check(np, NEAR, [output], [np.ones((8, 3, 4))]).right
    assert [(rows.start, rows.stop) for rows in taken] == [(0, 2), (2, 4), (4, 6), (6, 8)]


def test_complex_outputs_may_have_a_reference_of_real_numbers():
    data = np.ones((2, 2), np.complex64)
    assert check(np, EXACT, [data], [np.ones((2, 2), np.float32)]).right
    assert not check(np, EXACT, [data + 1j], [np.ones((2, 2), np.float32)]).right


def test_complex64_is_compared_with_a_complex128_reference():
    wide = np.full((2, 2), 1 + 2j, np.complex128)
    assert check(np, NEAR, [wide.astype(np.complex64)], [wide]).right


def largest_by_numpy(found, wanted):
    with np.errstate(invalid="ignore"):
        difference = np.abs(found.astype(np.float64) - wanted)
    return float(np.max(difference)), float(np.max(np.abs(wanted)))


@pytest.mark.parametrize("case", [EXACT, NEAR])
@pytest.mark.parametrize("changed", [1.0, 1 + 1e-7, 1 + 1e-3, 0.0, -0.0, math.nan, math.inf])
@pytest.mark.parametrize("reference", [1.0, 0.0, math.nan, math.inf])
def test_a_devices_own_comparison_changes_no_outcome(case, changed, reference):
    output, wanted = np.ones((3, 4), np.float32), np.ones((3, 4))
    output[1, 2], wanted[1, 2] = changed, reference
    with np.errstate(invalid="ignore"):
        slow = check(np, case, [output], [wanted])
        quick = check(np, case, [output], [wanted], largest_by_numpy)
    assert repr(quick) == repr(slow)


@pytest.mark.parametrize(
    ("largest", "tolerance", "error"),
    [
        ((1.0, 2.0), 0.5, 0.5),
        ((0.3, 0.0), 0.5, 0.3),  # a reference of zeros: the difference itself
        ((0.5, 1.0), 1.0, 0.5),
        ((0.0, 2.0), 0.0, 0.0),
    ],
)
def test_what_a_device_compared_in_one_pass_and_found_right_is_right(largest, tolerance, error):
    case = make_case(tolerance=tolerance)
    result = check(np, case, [np.zeros(3)], [np.full(3, 100.0)], lambda _found, _wanted: largest)
    assert (result.error, result.mismatch) == (error, None)


@pytest.mark.parametrize(
    ("largest", "tolerance"),
    [
        ((1.0, 1.9), 0.5),
        ((5e-324, 10.0), 0.0),  # their quotient is 0
        ((math.nan, 1.0), 0.5),
        ((0.0, math.inf), 0.5),
        ((0.0, math.nan), 0.0),
        (None, 0.5),
    ],
)
def test_what_a_device_did_not_find_right_is_compared_again_which_says_where(largest, tolerance):
    case = make_case(tolerance=tolerance)
    result = check(np, case, [np.ones(3)], [np.full(3, 100.0)], lambda _found, _wanted: largest)
    assert result.mismatch == "output 0 [0] is 1, expected 100"


def test_an_output_after_one_that_a_device_found_right_is_compared_too():
    quick = iter([(0.0, 1.0), None])
    outputs, expected = [np.ones(3), np.ones(3)], [np.ones(3), np.full(3, 2.0)]
    result = check(np, NEAR, outputs, expected, lambda _found, _wanted: next(quick))
    assert result.mismatch == "output 1 [0] is 1, expected 2"
