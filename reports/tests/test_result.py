from __future__ import annotations

import pytest
from peakgate.reports.result import WORST_FIRST, probability
from peakgate.verdict import FAULTY, REGRESSIONS, Verdict


@pytest.mark.parametrize(
    ("p_value", "reported"),
    [(0.0034, "p = 0.003"), (2e-6, "p = 2e-06"), (1e-6, "p = 1e-06"), (9.9e-7, "p < 1e-06"), (0.0, "p < 1e-06")],
)
def test_a_tail_too_far_out_to_be_known_is_given_as_a_bound(p_value: float, reported: str) -> None:
    assert probability(p_value) == reported


def test_every_verdict_has_its_place_in_a_report_and_a_case_at_fault_comes_first() -> None:
    assert sorted(WORST_FIRST) == sorted(Verdict)
    assert set(WORST_FIRST[: len(FAULTY)]) == FAULTY
    assert set(WORST_FIRST[: len(REGRESSIONS)]) == REGRESSIONS
