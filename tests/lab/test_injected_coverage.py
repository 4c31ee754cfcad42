"""Intervals that are simulated where the truth is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lab.injected import coverage
from lab.injected.record import COLUMNS, Experiment, write_times


@pytest.fixture
def record(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    rows = [
        ("screen", pair, side, f"a.case{number}", 20.0 * (1 + number) * rng.normal(1, 0.002), None)
        for pair in range(12)
        for side in ("base", "head")
        for number in range(30)
    ]
    write_times(tmp_path, Experiment.SAME, pd.DataFrame(rows, columns=COLUMNS))
    return tmp_path


def test_intervals_of_flagged_cases_hold_the_truth(record: Path) -> None:
    assert coverage.main([str(record), "--gates", "5"]) == 0
    found = json.loads((record / coverage.COVERAGE).read_text())
    assert found["gates"] == 5
    assert {each["noise"] for each in found["rows"]} == {"measured pairs", "Student's t", "two modes"}
    for each in found["rows"]:
        assert 0 <= each["held"] <= each["cases"]
        assert each["width"] > 0
    flagged = [each for each in found["rows"] if each["flagged"] != coverage.NOT_FLAGGED and each["changed"]]
    assert sum(each["held"] for each in flagged) >= 0.97 * sum(each["cases"] for each in flagged) > 10


def test_without_a_record_nothing_is_written(tmp_path: Path) -> None:
    assert coverage.main([str(tmp_path)]) == 2
    assert list(tmp_path.iterdir()) == []
