"""A report as Markdown for a pull request: what fails first, the unchanged folded away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from peakgate.core.case import ID_PATTERN
from peakgate.core.report import CellValue, Column, Report, Row, Table, Tone
from peakgate.core.text import one_line

SPECIAL = frozenset("&<>\"'\\`*_[]#|~@$")
"""Characters that Markdown, HTML or GitHub (mentions, references, links) would interpret."""

SECTIONS = {Tone.BAD: "Failed", Tone.OPEN: "Undecided", Tone.GOOD: "Faster or new", Tone.SAME: "Passed"}
"""Titles of the rows; where room is short, the last is cut first."""


def markdown(report: Report, *, most_bytes: int | None = None) -> str:
    """The whole report; every text that comes from a file is escaped.

    With ``most_bytes`` rows are left out until it fits: unchanged ones first, failed ones last, the mildest of each
    first; each section names how many it lacks.
    """
    head = "\n".join(_head(report))
    columns = [column for column in report.columns if column.brief]
    changes, reasons = any(row.change for row in report.rows), any(row.reason for row in report.rows)
    names = [report.unit, *(["verdict"] if report.counts else []), *(["change"] if changes else [])]
    names += [*(column.heading for column in columns), *(["reason"] if reasons else [])]
    heading = [table_line(names), table_line(["---"] * len(names))]
    rows = {
        each: [table_line(_cells(row, columns, names)) for row in report.rows if row.tone is each] for each in SECTIONS
    }
    counts = {each: len(lines) for each, lines in rows.items()}
    if most_bytes is None:
        return head + _sections(rows, counts, heading)
    room = most_bytes - _bytes(head) - _bytes(_sections(dict.fromkeys(rows, ()), counts, heading))
    if room < 0:
        return head.encode(errors="replace")[: max(0, most_bytes)].decode(errors="ignore")
    excess = sum(_bytes(line) + 1 for lines in rows.values() for line in lines) - room
    for lines in reversed(rows.values()):
        while excess > 0 and lines:
            excess -= _bytes(lines.pop()) + 1
    return head + _sections(rows, counts, heading)


def _head(report: Report) -> list[str]:
    lines = [f"# Peakgate {report.command}{': ' if report.headline else ''}{report.headline}", ""]
    lines += [f"{escape(report.counts_text)}.", ""] if report.counts else []
    lines += [f"- {escape(name)}: {escape(value)}" for name, value in report.about]
    lines += [f"- {escape(row.name)}: {escape(row.verdict)}, {escape(row.reason)}" for row in report.overall]
    lines += [f"- {_sentence(sentence)}" for sentence in report.sentences]
    lines += [f"- note: {escape(note)}" for note in report.notes]
    lines.append("")
    for each in report.tables:
        if each.folded:
            lines += [f"<details><summary>{escape(each.title)}</summary>", "", *table(each), "</details>", ""]
        else:
            lines += [f"## {escape(each.title)}", "", *table(each)]
    return [*lines, ""]


def _sentence(text: str) -> str:
    """A sentence, what stands in it between backticks as code."""
    parts = one_line(text).split("`")
    if len(parts) % 2 == 0 or any(set("<>&|\\") & set(part) for part in parts[1::2]):
        return escape(text)
    return "".join(f"`{part}`" if at % 2 else escape(part) for at, part in enumerate(parts))


def escape(text: str) -> str:
    """Any text as Markdown that shows just this text, in one line."""
    plain = "".join(f"&#{ord(each)};" if each in SPECIAL else each for each in one_line(text))
    return plain.replace("://", "&#58;//")


def code(text: str) -> str:
    """A case id in code type; ids of our own stay legible in the source."""
    return f"`{text}`" if ID_PATTERN.fullmatch(text) else f"<code>{escape(text)}</code>"


def _sections(rows: Mapping[Tone, Sequence[str]], counts: Mapping[Tone, int], heading: Sequence[str]) -> str:
    """Every section that has rows, by tone its rows and how many it stands for."""
    lines: list[str] = []
    for each, title in SECTIONS.items():
        if not counts[each]:
            continue
        cut = counts[each] - len(rows[each])
        lacking = [f"{cut} of {counts[each]} rows are left out here, the whole report is in the files.", ""]
        body = [*heading, *rows[each], "", *(lacking if cut else [])]
        if each is Tone.SAME:
            lines += [f"<details><summary>{title} ({counts[each]})</summary>", "", *body, "</details>", ""]
        else:
            lines += [f"## {title} ({counts[each]})", "", *body]
    return "\n".join(lines)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", errors="replace"))


def _cells(row: Row, columns: Sequence[Column], names: Sequence[str]) -> list[str]:
    """The cells of a row, those that these headings have."""
    cells = [
        code(row.name),
        *([row.verdict] if "verdict" in names else []),
        *([row.change] if "change" in names else []),
    ]
    cells += [escape(column.text(row)) for column in columns]
    return [*cells, escape(row.reason)] if "reason" in names else cells


def table(found: Table) -> list[str]:
    """The lines of a table, the last of them empty."""
    head = [table_line(map(escape, found.headings)), table_line(["---"] * len(found.headings))]
    return [*head, *(table_line(map(_cell, row)) for row in found.rows), ""]


def _cell(value: CellValue) -> str:
    return "" if value is None else escape(str(value))


def table_line(cells: Iterable[str]) -> str:
    """A row of a table; cells are taken as they are."""
    return f"| {' | '.join(cells)} |"
