"""The comparison on a terminal: what changed, worst first, then one line to remember."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peakgate.reports.render import findings, words
from peakgate.reports.result import Comparison
from peakgate.verdict import Verdict
from rich.console import Console
from rich.text import Text

FOLDED = frozenset({Verdict.INCOMPARABLE, Verdict.NEW})


def show(comparison: Comparison, console: Console, *, everything: bool = False) -> None:
    """Print header, differences, rows and the suite's line; only changed rows unless ``everything``."""
    findings.line(console, f"base  {words.side(comparison.base)}")
    findings.line(console, f"new   {words.side(comparison.new)}")
    for difference in comparison.differences:
        findings.line(console, f"differs: {difference.name}: {difference.base} to {difference.new}", style="dim")
    for note in comparison.notes:
        findings.line(console, f"note: {note}", style="dim")
    listed = [row for row in comparison.records if everything or row.verdict not in words.UNCHANGED]
    if listed:
        console.print()
    findings.show(console, listed, FOLDED, _details)
    console.print()
    if comparison.suite:
        suite = comparison.suite
        text = Text("suite-wide: ").append_text(findings.verdict_text(suite.judgement.verdict))
        console.print(text.append(f", {suite.judgement.reason}"))
    for sentence in (words.floors(comparison), words.detectable(comparison), words.rerun(comparison)):
        if sentence:
            findings.line(console, sentence)


def last_line(comparison: Comparison, console: Console, *, strict: bool = False, written: Sequence[Path] = ()) -> None:
    """Counts, verdict, and where the report was written."""
    verdict = comparison.verdict(strict=strict)
    text = Text(f"{words.counts(comparison)}: ").append_text(findings.verdict_text(verdict))
    if written:
        text.append(f"; {', '.join(str(path) for path in written)}")
    console.print(text, soft_wrap=True)


def _details(row: Any) -> tuple[str, ...]:
    times = f"{words.times(row)} µs; " if words.times(row) else ""
    return (f"{times}{row.reason}",)
