"""The comparison as Markdown for a pull request: regressions first, the unchanged folded away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reports.render import words
from reports.result import Comparison, Row
from suite.case import ID_PATTERN
from suite.verdict import REGRESSIONS, Verdict

SPECIAL = frozenset("&<>\"'\\`*_[]#|~@$")
"""What Markdown, HTML or GitHub (mentions, references, links) would read as more than text."""

HEADINGS = ("case", "verdict", "change", "time (µs)", "smallest detectable", "of peak", "reason")
SECTIONS = (
    ("Regressions", REGRESSIONS, False),
    ("Undecided", frozenset({Verdict.INCONCLUSIVE, Verdict.INCOMPARABLE, Verdict.NO_FLOOR}), False),
    ("Faster and new", frozenset({Verdict.FASTER, Verdict.NEW}), False),
    ("Unchanged", words.UNCHANGED, True),
)


def markdown(comparison: Comparison, *, strict: bool = False) -> str:
    """The whole report; every text that comes from a file is escaped."""
    lines = [f"# Peakgate: {comparison.verdict(strict=strict)}", "", escape(words.counts(comparison)) + ".", ""]
    lines += [f"- base: {escape(words.side(comparison.base))}", f"- new: {escape(words.side(comparison.new))}"]
    if comparison.suite:
        lines.append(f"- suite-wide: {comparison.suite.judgement.verdict}, {escape(comparison.suite.judgement.reason)}")
    lines += [f"- {escape(text)}" for text in (words.detectable(comparison), words.floors(comparison)) if text]
    if again := words.rerun(comparison):
        lines.append(f"- `{again}`")
    lines += [f"- note: {escape(note)}" for note in comparison.notes]
    lines.append("")
    if comparison.differences:
        lines += ["## What else differs", ""]
        facts = ((escape(fact.name), escape(fact.base), escape(fact.new)) for fact in comparison.differences)
        lines += _table(("", "base", "new"), facts)
    for title, verdicts, folded in SECTIONS:
        rows = [row for row in comparison.rows if row.verdict in verdicts]
        if rows:
            lines += _section(title, rows, folded=folded)
    return "\n".join(lines)


def escape(text: str) -> str:
    """Any text as Markdown that shows just this text, in one line."""
    plain = "".join(f"&#{ord(each)};" if each in SPECIAL else each for each in words.one_line(text))
    return plain.replace("://", "&#58;//")


def code(text: str) -> str:
    """A case id in code type; ids of our own stay legible in the source."""
    return f"`{text}`" if ID_PATTERN.fullmatch(text) else f"<code>{escape(text)}</code>"


def _section(title: str, rows: Sequence[Row], *, folded: bool) -> list[str]:
    table = _table(HEADINGS, (_cells(row) for row in rows))
    if folded:
        return [f"<details><summary>{title} ({len(rows)})</summary>", "", *table, "</details>", ""]
    return [f"## {title} ({len(rows)})", "", *table]


def _cells(row: Row) -> tuple[str, ...]:
    fraction = row.new.peak_fraction if row.new else None
    return (
        code(row.case),
        row.verdict,
        words.change(row),
        words.times(row),
        f"{row.shift.resolvable_percent:.2g} %" if row.shift else "",
        "" if fraction is None else f"{fraction:.3f}",
        escape(row.reason),
    )


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_line(headings), _line(["---"] * len(headings)), *(_line(row) for row in rows), ""]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
