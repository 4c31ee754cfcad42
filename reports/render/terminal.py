"""The comparison on a terminal: what changed, worst first, then one line to remember."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peakgate.reports.render import words
from peakgate.reports.result import Comparison, plain_rows
from peakgate.verdict import REGRESSIONS, UNDECIDED, Verdict
from rich.console import Console
from rich.text import Text

VERDICT_WIDTH = max(len(verdict) for verdict in Verdict) + 2
FOLDED = frozenset({Verdict.INCOMPARABLE, Verdict.NEW})
MOST_ALIKE = 5
CHANGE_WIDTH = len("10.00x slower") + 2


def show(comparison: Comparison, console: Console, *, everything: bool = False) -> None:
    """Print header, differences, rows and the suite's line; only changed rows unless ``everything``."""
    _line(console, f"base  {words.side(comparison.base)}")
    _line(console, f"new   {words.side(comparison.new)}")
    for difference in comparison.differences:
        _line(console, f"differs: {difference.name}: {difference.base} to {difference.new}", style="dim")
    for note in comparison.notes:
        _line(console, f"note: {note}", style="dim")
    frame = comparison.frame
    listed = plain_rows(frame if everything else frame[~frame["verdict"].isin([*words.UNCHANGED])])
    if listed:
        console.print()
    for rows in _alike(listed):
        if len(rows) > MOST_ALIKE:
            _folded(console, rows)
            continue
        for row in rows:
            _row(console, row)
    console.print()
    if comparison.suite:
        suite = comparison.suite
        text = Text("suite-wide: ").append(suite.judgement.verdict, _style(suite.judgement.verdict))
        console.print(text.append(f", {suite.judgement.reason}"))
    for sentence in (words.floors(comparison), words.detectable(comparison), words.rerun(comparison)):
        if sentence:
            _line(console, sentence)


def last_line(comparison: Comparison, console: Console, *, strict: bool = False, written: Sequence[Path] = ()) -> None:
    """Counts, verdict, and where the report was written."""
    verdict = comparison.verdict(strict=strict)
    text = Text(f"{words.counts(comparison)}: ").append(verdict, _style(verdict))
    if written:
        text.append(f"; {', '.join(str(path) for path in written)}")
    console.print(text, soft_wrap=True)


def _alike(rows: Sequence[Any]) -> list[list[Any]]:
    """Rows of FOLDED verdicts that have the same reason, together; each other row by itself."""
    groups: dict[tuple[str, ...], list[Any]] = {}
    for row in rows:
        key = (row.verdict, row.reason) if row.verdict in FOLDED else (row.case,)
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _folded(console: Console, rows: Sequence[Any]) -> None:
    head = Text(f"{rows[0].verdict:<{VERDICT_WIDTH}}", _style(Verdict(rows[0].verdict)))
    console.print(head.append(f"{len(rows)} cases, first {words.one_line(rows[0].case)}"), soft_wrap=True)
    _line(console, f"    {rows[0].reason}", style="dim")


def _row(console: Console, row: Any) -> None:
    """The id stays whole on its line, however long, so that it can be searched for; the reason wraps below it."""
    head = Text(f"{row.verdict:<{VERDICT_WIDTH}}", _style(Verdict(row.verdict)))
    head.append(f"{words.change(row):<{CHANGE_WIDTH}}").append(words.one_line(row.case), "bold")
    console.print(head, soft_wrap=True)
    times = f"{words.times(row)} µs; " if words.times(row) else ""
    _line(console, f"    {times}{row.reason}", style="dim")


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(words.one_line(text), style), soft_wrap=True)


def _style(verdict: Verdict) -> str:
    if verdict in REGRESSIONS:
        return "bold red"
    if verdict in UNDECIDED or verdict is Verdict.NO_FLOOR:
        return "yellow"
    return "green"
