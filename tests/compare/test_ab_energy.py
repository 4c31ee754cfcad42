"""Energy beside the time of an ``ab``: of the first pairs, and it judges nothing."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from ab_experiment import CHANGED, PAD, ab, row, start_quickly
from ab_fake import FakeSide

from peakgate.base.verdict import Verdict
from peakgate.compare.ab.asides import energy_notes
from peakgate.runfile.saved import CaseResult
from peakgate.spec.recorded import Energy


def result(joules: float | None) -> CaseResult:
    energy = None if joules is None else Energy(joules, 0.9 * joules, 1.1 * joules, 3, 1.0, 400.0, 71.0)
    return CaseResult(case="a.b", verdict=Verdict.NO_FLOOR, energy=energy, time_us=1.0, samples=6, sampling_error=None)


def test_both_sides_have_their_median_and_range_and_the_idle_power() -> None:
    base, head = [result(1.0e-3), result(1.2e-3), result(None)], [result(2.2e-3)]
    (note,) = energy_notes(base, head)
    figures = re.findall(r"[+-]?\d[\d.]*(?: (?:mJ|%|W))?", note)
    assert figures == ["1.10 mJ", "0.900", "1.32", "2.20 mJ", "1.98", "2.42", "+100.0 %", "71 W"]


def test_nothing_is_said_where_a_side_has_none() -> None:
    assert energy_notes([result(1.0)], [result(None)]) == []


def test_a_counter_that_did_not_move_gives_no_change() -> None:
    (note,) = energy_notes([result(0.0)], [result(1.0)])
    assert "%" not in note


def test_twice_the_energy_is_reported_and_judges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_quickly(tmp_path, monkeypatch)

    def side(joules: float, **more: Any) -> FakeSide:
        return FakeSide(extra={PAD: {"energy": asdict(Energy(joules, joules, joules, 1, 1.0, 400.0, None))}}, **more)

    assert ab(tmp_path, side(1.0), side(2.0, fingerprints=CHANGED), "--energy") == 0
    assert row(tmp_path, PAD)["verdict"] == Verdict.SAME
    assert re.findall(r"([\d.]+) J\b", row(tmp_path, PAD)["reason"]) == ["1.00", "2.00"]
