"""Whether the injected cause is named first."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from lab.injected.explained import EXPECTED, explained, figures
from peakgate.base.errors import PeakgateError
from peakgate.compare.ab.causes import ExplainedSide, FindingCause, MachineCode
from peakgate.compare.ab.explain import SIDES_FILE, Explained, KnownSide
from peakgate.judge.occupancy import Resources

RECORD = Path(__file__).parents[2] / "lab" / "injected" / "h200"


def test_a_mutant_is_right_only_where_its_cause_comes_first() -> None:
    cases = dict.fromkeys(EXPECTED, "none")
    rows = figures(Explained(()), cases)
    assert [row["right"] for row in rows] == [False] * len(EXPECTED)


def test_the_packed_record_is_explained_anew() -> None:
    rows = json.loads((RECORD / "explained.json").read_text(encoding="utf-8"))
    again = figures(explained(RECORD / "explain"), {row["mutant"]: row["case"] for row in rows})
    assert sum(bool(row["right"]) for row in again) == len(EXPECTED)


def test_what_was_saved_is_explained_again_without_a_gpu(tmp_path: Path) -> None:
    spilled = Resources(registers=24, stack_bytes=64, spill_bytes=128, static_shared_bytes=0)
    plain = KnownSide(
        ExplainedSide(Resources(32, 0, 0, 0), MachineCode(5, {"FP32": 5}, ()), {"sm__cycles_active.sum": 1e6}),
        "a",
        ("FADD",),
    )
    both = [plain, KnownSide(ExplainedSide(spilled, None, {}), "b", ())]
    (tmp_path / SIDES_FILE).write_text(json.dumps({"k": [asdict(each) for each in both]}))
    (found,) = explained(tmp_path).cases
    assert found.findings[0].cause is FindingCause.SPILLS
    assert "24" in str(explained(tmp_path).table().rows)
    with pytest.raises(PeakgateError, match="expected a file of a campaign"):
        explained(tmp_path / "elsewhere")
