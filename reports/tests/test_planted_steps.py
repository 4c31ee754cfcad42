from __future__ import annotations

from pathlib import Path

import pytest
from peakgate.case import Case, Scalar, Scale
from peakgate.project import catalogue
from peakgate.reports import planted

FILE = Path(planted.__file__).parent / "project" / "kernels" / "steps" / "family.py"
FAMILIES = [catalogue.family_at(FILE)]


def listed() -> dict[str, Case]:
    return {case.id: case for case in catalogue.cases(Scale.BENCH, listed=FAMILIES)}


def links(case: Case) -> float:
    chain = case.arguments[3]
    assert isinstance(chain, Scalar)
    return chain.value


def test_a_marked_tree_has_the_same_copies_delayed_by_the_planted_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = listed()
    (tmp_path / "slower").touch()
    marked = listed()
    assert plain.keys() == marked.keys()
    assert not any(links(case) for case in plain.values())
    assert {case for case in marked if not links(marked[case])} == {case for case in marked if "-0pm-" in case}
    delay_ns = links(marked["steps.delayed_copy-150us-20pm-0"]) * 29 / 1.98  # cycles a link at 1980 MHz
    assert delay_ns == pytest.approx(0.02 * 150_000, rel=0.01)
    assert {case.launch for case in plain.values()} == {case.launch for case in marked.values()}
    assert catalogue.cases(Scale.SMALL, listed=FAMILIES) == []
