"""Blocks of pages that experiments fill are as their records have them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernels.ladder.markers import inside, read_document
from lab.calibrated import emulated
from lab.correctness import page as correctness
from lab.dodges import page as dodges
from lab.faults import page as faults
from lab.fleet import known
from lab.history import study
from lab.injected.page import explained
from lab.mutation import mutation
from lab.pages import ROOT

LAB = ROOT / "lab"


def read(name: str) -> Any:
    return json.loads((LAB / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("page", "blocks"),
    [
        (mutation.PAGE, mutation.blocks),
        (correctness.PAGE, correctness.content),
        (ROOT / "docs/explanation/races.md", emulated.blocks),
        (dodges.PAGE, dodges.blocks),
        (faults.PAGE, faults.blocks),
        (known.PAGE, known.blocks),
        (ROOT / "docs/explanation/change-points.md", lambda: study.blocks(read("history/study.json"))),
        (LAB / "injected/README.md", lambda: {"injected-explained": explained(LAB / "injected" / "h200")}),
    ],
)
def test_tables_of_what_was_measured_are_those_of_the_records(page, blocks) -> None:
    held = inside(read_document(page), page)
    for name, text in blocks().items():
        assert held[name] == text, name
