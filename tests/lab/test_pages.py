"""Blocks of pages that experiments fill are as their records have them."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from kernels.ladder.markers import inside, read_document
from lab.ahead import changes
from lab.calibrated import page as calibrated
from lab.clocks import page as clocks
from lab.correctness import page as correctness
from lab.counters import page as counters
from lab.cute import page as cute
from lab.dodges import page as dodges
from lab.downloads import downloads
from lab.faults import page as faults
from lab.fleet import page as fleet
from lab.foreign import page as foreign
from lab.frameworks import page as frameworks
from lab.growth import growth
from lab.history import study
from lab.injected.page import explained
from lab.latency import page as latency
from lab.mutation import mutation
from lab.newcomer import page as newcomer
from lab.pages import ROOT
from lab.pipelines import page as pipelines
from lab.refills import page as refills
from lab.starts import overlap
from lab.triton import page as triton

LAB = ROOT / "lab"


def read(name: str) -> Any:
    return json.loads((LAB / name).read_text(encoding="utf-8"))


def frameworks_block(name: str) -> dict[str, str]:
    return {name: frameworks.blocks()[name]}


@pytest.mark.parametrize(
    ("page", "blocks"),
    [
        (mutation.PAGE, mutation.blocks),
        (newcomer.PAGE, newcomer.blocks),
        (correctness.PAGE, correctness.content),
        (calibrated.PAGE, calibrated.blocks),
        (clocks.PAGE, clocks.blocks),
        (dodges.PAGE, dodges.blocks),
        (refills.PAGE, refills.blocks),
        (faults.PAGE, faults.blocks),
        (foreign.PAGE, foreign.blocks),
        (pipelines.PAGE, pipelines.blocks),
        (cute.PAGE, cute.blocks),
        (triton.PAGE, triton.blocks),
        (latency.PAGE, latency.blocks),
        (downloads.PAGE, downloads.page),
        (counters.PAGE, counters.blocks),
        (changes.PAGE, changes.blocks),
        *((page, partial(blocks, fleet.HERE)) for page, blocks in fleet.PAGES.items()),
        (ROOT / "docs/explanation/change-points.md", lambda: study.blocks(read("history/study.json"))),
        (LAB / "injected/README.md", lambda: {"injected-explained": explained(LAB / "injected" / "h200")}),
        *((page, partial(frameworks_block, name)) for name, page in frameworks.PAGES.items() if name != "energy"),
        (growth.PAGE, lambda: growth.page([json.loads(path.read_text()) for path in growth.RECORDS])),
        (LAB / "starts/README.md", lambda: overlap.page(read("starts/starts.json"))),
    ],
)
def test_tables_of_what_was_measured_are_those_of_the_records(page, blocks) -> None:
    held = inside(read_document(page), page)
    for name, text in blocks().items():
        assert held[name] == text, name
