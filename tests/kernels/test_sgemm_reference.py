"""The sgemm family: its reference and its tolerance."""

from __future__ import annotations

import numpy as np
import pytest
from family_modules import sgemm
from hypothesis import given, settings
from hypothesis import strategies as st
from sgemm_builds import over_bound, random_matrices

from peakgate.case import Array
from peakgate.device.expected import exact_inputs

product = sgemm.product


def tf32(matrix: Array) -> Array:
    """Rounded to the 10 bits of mantissa that tensor cores keep of a float32."""
    bits = matrix.view(np.uint32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)


def test_the_reference_is_computed_in_float64() -> None:
    expected = product(np, *exact_inputs((np.array([[1e8, 1, -1e8]], np.float32), np.ones((3, 1), np.float32))))
    assert expected.dtype == np.float64
    assert expected.item() == 1.0


@settings(deadline=None)
@given(k=st.integers(1, 2048), seed=st.integers(0, 1000))
def test_sums_added_one_by_one_in_float32_are_within_tolerance(k: int, seed: int) -> None:
    a, b = random_matrices(16, 16, k, seed)
    in_order = np.cumsum(a[:, :, None] * b[None, :, :], axis=1, dtype=np.float32)[:, -1, :]
    assert over_bound(in_order, (a, b)) <= 1


@pytest.mark.parametrize("k", [256, 1024, 4096, 16384])
def test_one_lost_product_of_average_size_is_outside_tolerance(k: int) -> None:
    a, b = random_matrices(64, 64, k)
    got = product(np, *exact_inputs((a, b)))
    terms = a[0].astype(np.float64) * b[:, 0]
    got[0, 0] -= terms[np.argmin(np.abs(np.abs(terms) - 0.25))]
    assert over_bound(got, (a, b)) > 1


@pytest.mark.parametrize("k", [256, 1024, 4096, 16384])
def test_inputs_rounded_to_tf32_are_outside_tolerance(k: int) -> None:
    a, b = random_matrices(64, 64, k)
    assert over_bound(product(np, *exact_inputs((tf32(a), tf32(b)))), (a, b)) > 1
