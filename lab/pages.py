"""Fills the blocks of pages between the markers of ``python -m kernels.ladder`` with results of experiments."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernels.ladder.markers import fill, read_document
from peakgate.base.files import write_whole
from peakgate.base.streams import say

ROOT = Path(__file__).resolve().parents[1]


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def filled(path: Path, content: Mapping[str, str]) -> str:
    """A document with these contents in its blocks; the contents of all blocks must be given."""
    return fill(read_document(path), path, content.__getitem__, content)


def fill_page(path: Path, content: Mapping[str, str]) -> None:
    """Fill a document's blocks with these contents."""
    write_whole(path, filled(path, content))


def show(content: Mapping[str, str], page: Path | None) -> None:
    """Fill a document's blocks with these contents, or print them if there is none."""
    if page is None:
        say("\n\n".join(content.values()) + "\n")
    else:
        fill_page(page, content)
        say(f"{page}: written\n")


def percent(share: float) -> str:
    """A share in percent with at most three significant digits: ``0.4 %``."""
    return f"{100 * share:.3g} %"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; cells are not escaped."""
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in (head, ["---"] * len(head), *rows))
