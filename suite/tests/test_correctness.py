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


def test_an_error_past_tolerance_in_a_late_slice_is_found(monkeypatch):
    monkeypatch.setattr(correctness, "_ROWS_AT_A_TIME_BYTES", 64)  # two rows at a time
    reference = np.ones((8, 4))
    output = reference.astype(np.float32)
    output[6, 1] = 1.1
    assert "[6, 1]" in check(np, NEAR, [output], [reference]).mismatch


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
