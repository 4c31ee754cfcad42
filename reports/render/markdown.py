"""Text of reports as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from peakgate.reports.write.markdown import code, escape, table_line

__all__ = ["code", "escape", "table", "table_line"]


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table, the last of them empty; cells are taken as they are."""
    return [table_line(headings), table_line(["---"] * len(headings)), *map(table_line, rows), ""]
