"""Blocks of pages that experiments fill are as their records have them."""

from __future__ import annotations

import pytest

from kernels.ladder.markers import inside, read_document
from lab.fill import PAGES


@pytest.mark.parametrize("name", PAGES)
def test_tables_of_what_was_measured_are_those_of_the_records(name: str) -> None:
    page, blocks = PAGES[name]
    held = inside(read_document(page), page)
    for block, text in blocks().items():
        assert held[block] == text, block
