"""The comparison on a terminal: what changed, worst first, then one line to remember.

When the reader closes the pipe, files and exit code stay the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from peakgate.common.output import print_to_nobody
from peakgate.reports.render import phrases
from peakgate.reports.result import Comparison
from peakgate.verdict import REGRESSIONS, UNDECIDED, Verdict
from rich.console import Console
from rich.text import Text


class VerdictConsole(Console):
    """A console without number colours that goes silent when the pipe is closed, where rich would exit with 1.

    After ``peakgate history | head``, 1 would mean a regression, and the reports would not be written.
    """

    def __init__(self, *, markup: bool = True) -> None:
        super().__init__(highlight=False, markup=markup)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        print_to_nobody(sys.stdout)


FOLDED = frozenset({Verdict.INCOMPARABLE, Verdict.NEW})

MOST_ALIKE = 5
VERDICT_WIDTH = max(len(verdict) for verdict in Verdict) + 2
CHANGE_WIDTH = len("10.00x slower") + 2


def show(comparison: Comparison, console: Console, *, everything: bool = False) -> None:
    """Print header, differences, rows and the suite's line; only changed rows unless ``everything``."""
    line(console, f"base  {phrases.side(comparison.base)}")
    line(console, f"new   {phrases.side(comparison.new)}")
    for difference in comparison.differences:
        line(console, f"differs: {difference.name}: {difference.base} to {difference.new}", style="dim")
    for note in comparison.notes:
        line(console, f"note: {note}", style="dim")
    listed = [row for row in comparison.records if everything or row.verdict not in phrases.UNCHANGED]
    if listed:
        console.print()
    show_rows(console, listed, FOLDED, _details)
    console.print()
    if comparison.suite:
        suite = comparison.suite
        text = Text("suite-wide: ").append_text(verdict_text(suite.judgement.verdict))
        console.print(text.append(f", {phrases.one_line(suite.judgement.reason)}"))
    for sentence in (phrases.floors(comparison), phrases.detectable(comparison), phrases.rerun(comparison)):
        if sentence:
            line(console, sentence)


def last_line(comparison: Comparison, console: Console, *, strict: bool = False, written: Sequence[Path] = ()) -> None:
    """Counts, verdict, and where the report was written."""
    verdict = comparison.verdict(strict=strict)
    text = Text(f"{phrases.counts(comparison)}: ").append_text(verdict_text(verdict))
    if written:
        text.append(f"; {', '.join(str(path) for path in written)}")
    console.print(text, soft_wrap=True)


def _details(row: Any) -> tuple[str, ...]:
    times = f"{phrases.times(row)} µs; " if phrases.times(row) else ""
    return (f"{times}{row.reason}",)


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
