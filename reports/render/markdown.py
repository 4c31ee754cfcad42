"""The comparison as Markdown for a pull request: regressions first, the unchanged folded away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from peakgate.case import ID_PATTERN
from peakgate.reports.render import phrases
from peakgate.reports.result import Comparison, percent
from peakgate.verdict import REGRESSIONS, Verdict

SPECIAL = frozenset("&<>\"'\\`*_[]#|~@$")
"""What Markdown, HTML or GitHub (mentions, references, links) would read as more than text."""

COMPARISON_HEADINGS = ("case", "verdict", "change", "time (µs)", "smallest detectable", "of peak", "reason")
COMPARISON_SECTIONS = (
    ("Regressions", REGRESSIONS, False),
    ("Undecided", frozenset({Verdict.INCONCLUSIVE, Verdict.INCOMPARABLE, Verdict.NO_FLOOR}), False),
    ("Faster and new", frozenset({Verdict.FASTER, Verdict.NEW}), False),
    ("Unchanged", phrases.UNCHANGED, True),
)
"""Title, verdicts and whether it is folded; where room is short, the last is cut first."""


def markdown(comparison: Comparison, *, strict: bool = False, most_bytes: int | None = None) -> str:
    """The whole report; every text that comes from a file is escaped.

    With ``most_bytes`` rows are left out until it fits: unchanged ones first, regressions last, the mildest of each
    first; each section says how many it lacks.
    """
    head = "\n".join(_head(comparison, strict=strict))
    found = comparison.records
    rows = {
        title: [table_line(_cells(row)) for row in found if row.verdict in verdicts]
        for title, verdicts, _ in COMPARISON_SECTIONS
    }
    counts = {title: len(lines) for title, lines in rows.items()}
    if most_bytes is None:
        return head + _sections(rows, counts)
    room = most_bytes - _bytes(head) - _bytes(_sections(dict.fromkeys(rows, ()), counts))
    if room < 0:
        return head.encode(errors="replace")[: max(0, most_bytes)].decode(errors="ignore")
    excess = sum(_bytes(line) + 1 for lines in rows.values() for line in lines) - room
    for lines in reversed(rows.values()):
        while excess > 0 and lines:
            excess -= _bytes(lines.pop()) + 1
    return head + _sections(rows, counts)


def _head(comparison: Comparison, *, strict: bool) -> list[str]:
    lines = [f"# Peakgate: {comparison.verdict(strict=strict)}", "", escape(phrases.counts(comparison)) + ".", ""]
    lines += [f"- base: {escape(phrases.side(comparison.base))}", f"- new: {escape(phrases.side(comparison.new))}"]
    if comparison.suite:
        lines.append(f"- suite-wide: {comparison.suite.judgement.verdict}, {escape(comparison.suite.judgement.reason)}")
    lines += [f"- {escape(text)}" for text in (phrases.detectable(comparison), phrases.floors(comparison)) if text]
    if again := phrases.rerun(comparison):
        lines.append("- {}: `{}`".format(*again.split(": ", 1)))
    lines += [f"- note: {escape(note)}" for note in comparison.notes]
    lines.append("")
    if comparison.differences:
        lines += ["## What else differs", ""]
        facts = ((escape(fact.name), escape(fact.base), escape(fact.new)) for fact in comparison.differences)
        lines += table(("", "base", "new"), facts)
    return [*lines, ""]


def escape(text: str) -> str:
    """Any text as Markdown that shows just this text, in one line."""
    plain = "".join(f"&#{ord(each)};" if each in SPECIAL else each for each in phrases.one_line(text))
    return plain.replace("://", "&#58;//")


def code(text: str) -> str:
    """A case id in code type; ids of our own stay legible in the source."""
    return f"`{text}`" if ID_PATTERN.fullmatch(text) else f"<code>{escape(text)}</code>"


def _sections(rows: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> str:
    """Every section that has cases, by title its rows and how many cases it stands for."""
    lines: list[str] = []
    for title, _, folded in COMPARISON_SECTIONS:
        if not counts[title]:
            continue
        cut = counts[title] - len(rows[title])
        lacking = [f"{cut} of {counts[title]} cases are left out here, the whole report is in the files.", ""]
        body = [
            table_line(COMPARISON_HEADINGS),
            table_line(["---"] * len(COMPARISON_HEADINGS)),
            *rows[title],
            "",
            *(lacking if cut else []),
        ]
        if folded:
            lines += [f"<details><summary>{title} ({counts[title]})</summary>", "", *body, "</details>", ""]
        else:
            lines += [f"## {title} ({counts[title]})", "", *body]
    return "\n".join(lines)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", errors="replace"))


def _cells(row: Any) -> tuple[str, ...]:
    least, fraction = row.smallest_detectable_change_percent, row.new_peak_fraction
    return (
        code(row.case),
        row.verdict,
        phrases.change(row),
        phrases.times(row),
        "" if least is None else percent(least),
        "" if fraction is None else f"{fraction:.3f}",
        escape(row.reason),
    )


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table, the last of them empty; cells are taken as they are."""
    return [table_line(headings), table_line(["---"] * len(headings)), *map(table_line, rows), ""]


def table_line(cells: Iterable[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"
