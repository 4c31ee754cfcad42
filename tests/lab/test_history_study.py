"""The study of change points."""

from __future__ import annotations

from lab.history import study
from peakgate.compare.noise import Floats


def test_the_study_counts_what_a_rule_finds() -> None:
    def first(log_time: Floats) -> set[int]:
        return {0}

    found = study.rates(first, 4, 1)
    assert (found["histories"], found["false_positives"]) == (4, 4)
    assert [cell["found"] for cell in found["cells"]] == [4, *[0] * 9]
    assert "| first | 4 of 4 | 50.0 / 0.0 / 0.0 / 0.0 / 0.0 % |" in study.rules({"first": found})
