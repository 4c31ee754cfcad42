from __future__ import annotations

from pathlib import Path

import pytest

from suite import catalogue
from suite.case import Case, Scale

FOLDER = Path(__file__).parent / "planted_truth"


def listed() -> dict[str, Case]:
    return {case.id: case for case in catalogue.cases(Scale.BENCH, folders=[FOLDER])}


def test_a_marked_tree_has_the_same_cases_longer_by_the_planted_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = listed()
    (tmp_path / "slower").touch()
    marked = listed()
    assert plain.keys() == marked.keys()
    grown = {case: marked[case].work.bytes / plain[case].work.bytes for case in plain}
    assert grown["steps.copy_float-1000us-50pm-0"] == pytest.approx(1.05, abs=1e-3)
    assert all(factor == 1 for case, factor in grown.items() if "-0pm-" in case)
    assert catalogue.cases(Scale.SMALL, folders=[FOLDER]) == []
