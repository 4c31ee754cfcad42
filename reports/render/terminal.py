"""Rows on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from peakgate.reports.render import phrases
from peakgate.verdict import REGRESSIONS, UNDECIDED, Verdict
from rich.console import Console
from rich.text import Text

MOST_ALIKE = 5
VERDICT_WIDTH = max(len(verdict) for verdict in Verdict) + 2
CHANGE_WIDTH = len("10.00x slower") + 2


def show_rows(
    console: Console, rows: Sequence[Any], folded: Collection[Verdict], details: Callable[[Any], tuple[str, ...]]
) -> None:
    """Print rows with ``verdict``, ``reason``, ``case`` and ``change_percent``, and below each its ``details``.

    More than MOST_ALIKE rows of a verdict of ``folded`` that give one reason are counted instead.
    """
    for alike in _alike(rows, folded):
        if len(alike) > MOST_ALIKE:
            head = verdict_text(alike[0].verdict, VERDICT_WIDTH)
            console.print(head.append(f"{len(alike)} cases, first {phrases.one_line(alike[0].case)}"), soft_wrap=True)
            line(console, f"    {alike[0].reason}", style="dim")
            continue
        for row in alike:
            _row(console, row, details(row))


def line(console: Console, text: str, style: str = "") -> None:
    """Print text that may come from a file as one line, however long."""
    console.print(Text(phrases.one_line(text), style), soft_wrap=True)


def verdict_text(verdict: str, width: int = 0) -> Text:
    """The verdict in its colour."""
    style = "green"
    if verdict in REGRESSIONS:
        style = "bold red"
    elif verdict in UNDECIDED or verdict == Verdict.NO_FLOOR:
        style = "yellow"
    return Text(f"{verdict:<{width}}", style)


def _alike(rows: Sequence[Any], folded: Collection[Verdict]) -> list[list[Any]]:
    """Rows of folded verdicts that have the same reason, together; each other row by itself."""
    groups: dict[tuple[str, ...], list[Any]] = {}
    for row in rows:
        key = (row.verdict, row.reason) if row.verdict in folded else (row.case,)
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _row(console: Console, row: Any, details: tuple[str, ...]) -> None:
    """The id stays whole on its line, however long, so that it can be searched for; the reason, last, is dim."""
    head = verdict_text(row.verdict, VERDICT_WIDTH)
    head.append(f"{phrases.change(row):<{CHANGE_WIDTH}}").append(phrases.one_line(row.case), "bold")
    console.print(head, soft_wrap=True)
    for number, detail in enumerate(details, start=1):
        line(console, f"    {detail}", style="dim" if number == len(details) else "")
