"""The page of faults: each names a test that there is."""

from __future__ import annotations

import re

from lab.pages import ROOT

PAGE = ROOT / "lab" / "faults" / "README.md"
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]


def named(text: str) -> list[tuple[str, str]]:
    return re.findall(r"`([\w/.]+\.py)::(\w+)`", text)


def test_every_fault_names_a_test_that_there_is() -> None:
    rows = [row for row in ROWS if not row.startswith(("| fault |", "| --- |", "| reader |", "| what |", "| place |"))]
    faults = [row for row in rows if named(row)]
    numbers = {int(found[1]) for row in faults if (found := re.match(r"\| (\d+) ", row))}
    assert numbers == set(range(1, 37))
    assert len(faults) == 75
    for file, test in named(PAGE.read_text(encoding="utf-8")):
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"
