from __future__ import annotations

import pytest
from peakgate.reports.result import probability


@pytest.mark.parametrize(
    ("p_value", "told"),
    [(0.0034, "p = 0.003"), (2e-6, "p = 2e-06"), (1e-6, "p = 1e-06"), (9.9e-7, "p < 1e-06"), (0.0, "p < 1e-06")],
)
def test_a_tail_too_far_out_to_be_known_is_given_as_a_bound(p_value: float, told: str) -> None:
    assert probability(p_value) == told
