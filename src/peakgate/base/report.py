"""The report of a command: one record, from which every output format is written, and its JSON document.

The terminal is written by ``terminal``, all other formats by the reports' room ``write``.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from peakgate.base.files import remove_output, write_whole
from peakgate.base.safe_text import as_json
from peakgate.base.streams import say
from peakgate.base.verdict import FAILING, UNDECIDED, ExitCode, Verdict

SCHEMA = 1
"""Of the JSON document of every command."""

JSON_OPTION = "--json"
"""Of a command: one JSON object on standard output, for programs; all else that is printed goes to standard error."""

CellValue = str | float | int | None


class CellLink(str):
    """A cell's text that leads to an address in pages; plain text in every other output."""

    address: str

    def __new__(cls, text: str, address: str) -> CellLink:
        """The text, with the address relative to the page that it stands on."""
        made = super().__new__(cls, text)
        made.address = address
        return made


class Tone(StrEnum):
    """How a verdict is shown: it fails, leaves it open, is better than before, or is as it should be."""

    BAD = "bad"
    OPEN = "open"
    GOOD = "good"
    SAME = "same"


_TONES: Mapping[str, Tone] = {
    **dict.fromkeys(("", *(verdict for verdict in Verdict if verdict not in FAILING)), Tone.SAME),
    **dict.fromkeys((*UNDECIDED, Verdict.UNCONFIRMED), Tone.OPEN),
    **dict.fromkeys(("LOST", "UNFIT", "UNDECIDED"), Tone.OPEN),  # of a GPU of a fleet
    "OK": Tone.SAME,
    **dict.fromkeys((Verdict.FASTER, Verdict.NEW), Tone.GOOD),
}


def tone(verdict: str) -> Tone:
    """The tone of a verdict; BAD for a word that no table has."""
    return _TONES.get(verdict, Tone.BAD)


@dataclass(frozen=True, slots=True)
class Row:
    """One case, kernel, GPU or run, and what was found of it.

    ``change`` is its change in words, ``1.22x slower``. ``details`` are further lines besides the reason. ``cells`` are
    all values that are known of it, by column; CSV has every one. Rows are filtered by their ``group``, a case's
    family. ``address`` is that of the row's own page, ``picture`` an SVG of its own.
    """

    name: str
    verdict: str = ""
    reason: str = ""
    change: str = ""
    details: Sequence[str] = ()
    cells: Mapping[str, CellValue] = field(default_factory=dict)
    group: str = ""
    address: str = ""
    picture: str = ""

    @property
    def tone(self) -> Tone:
        return tone(self.verdict)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the rows: the name of its cells, heading, and how a cell is written.

    ``brief``: tables in Markdown have it too, where room is short.
    """

    name: str
    heading: str
    write: Callable[[Any], str] = str
    brief: bool = False

    def text(self, row: Row) -> str:
        """The row's cell as text; empty where there is no value."""
        value = row.cells.get(self.name)
        return "" if value is None or value != value else self.write(value)  # noqa: PLR0124  (NaN)


@dataclass(frozen=True, slots=True)
class Table:
    """A table besides the rows; a cell that is None is empty. ``folded``: collapsed in documents, not on a terminal."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[CellValue]]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG under its title; ``text`` describes it in one sentence. A ``narrow`` one fits a column of a phone."""

    title: str
    text: str
    svg: str
    narrow: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page that is folded, one of a family say: its pictures, tables, and sentences below them."""

    title: str
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    sentences: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Findings of one invocation of a command.

    ``about`` says what was asked for, name and value; ``overall`` are judgements on all rows together; ``rows`` come
    worst first, and ``columns`` are those of their cells that tables show. ``sentences`` are findings besides the rows,
    or what to do next, and may have several lines. ``fields`` are those of the JSON document besides schema, command,
    verdict and exit code. ``unit`` is what a row is; ``taken`` is when it was measured. ``totals`` are the rows by
    verdict where ``rows`` are not all of them, ``legend`` names the lines of pictures in the order of their colours.
    ``qualified`` is what stands beside the verdict wherever a person reads it. ``sections`` only a page has.
    """

    command: str
    exit_code: ExitCode
    verdict: str = ""
    qualified: str = ""
    about: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    overall: Sequence[Row] = ()
    rows: Sequence[Row] = ()
    columns: Sequence[Column] = ()
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    unit: str = "case"
    taken: datetime | None = None
    totals: Mapping[str, int] = field(default_factory=dict)
    legend: Sequence[str] = ()
    sections: Sequence[Section] = ()

    @property
    def headline(self) -> str:
        """The verdict and what stands beside it: ``PASS, 2 regressions open``."""
        return ", ".join(filter(None, (self.verdict, self.qualified)))

    @property
    def worst(self) -> Row | None:
        """The first row where it fails, is open or has a change: rows come worst first."""
        first = self.rows[0] if self.rows else None
        return first if first and (first.change or first.tone in {Tone.BAD, Tone.OPEN}) else None

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by verdict, in the order of the rows; empty where rows have none; ``totals`` where they are given."""
        return self.totals or Counter(row.verdict for row in self.rows if row.verdict)

    @property
    def counts_text(self) -> str:
        """``1 SLOWER, 76 SAME``."""
        return ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items())


def head(command: str, exit_code: int, verdict: str = "") -> dict[str, Any]:
    """How every JSON document begins: schema, command, verdict where there is one, exit code."""
    judged = {"verdict": verdict} if verdict else {}
    return {"schema": SCHEMA, "command": command, **judged, "exit_code": int(exit_code)}


def document(report: Report) -> dict[str, Any]:
    """The report's JSON document: its head and the command's fields."""
    return {**head(report.command, report.exit_code, report.verdict), **report.fields}


def add_json_option(parser: ArgumentParser) -> None:
    """Add ``--json`` to a verb's options: the command ``peakgate`` itself obeys it."""
    parser.add_argument(
        JSON_OPTION,
        action="store_true",
        help="print one JSON object on standard output, all else on standard error; see `peakgate help programs`",
    )


def write_json(report: Report, path: Path) -> None:
    """Write the document, whole or not at all."""
    write_whole(path, as_json(document(report)))


def clear_verdict(path: Path) -> None:
    """Remove the document of an earlier command, which must not pass for this one's if this one dies."""
    remove_output(path)


def write_verdict(report: Report, path: Path) -> None:
    """Write the document, with the date, where a caller that loses exit codes can read it."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    write_whole(path, as_json({**document(report), "date": date}))


def leave_verdict(report: Report, path: Path) -> ExitCode:
    """Write the document and name it; the exit code."""
    write_verdict(report, path)
    say(f"verdict: {path}")
    return report.exit_code
