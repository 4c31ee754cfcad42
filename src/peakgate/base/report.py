"""The report of a command: one record for every output format, and its JSON document."""

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
from peakgate.base.formatting import as_json
from peakgate.base.verdict import FAILING, RAN, RIGHT, UNDECIDED, ExitCode, Verdict

SCHEMA = 1
"""The schema number of the JSON document of every command."""

JSON_OPTION = "--json"
"""Print one JSON object on standard output; all other output goes to standard error."""

SARIF = ".sarif"
"""Suffix of the file beside a command's JSON document that has its annotations, for code hosts and editors."""

ENTRIES = ".toml"
"""Suffix of the file beside a command's JSON document that has the entries to accept its findings."""

NOT_CHECKED = "not checked"
"""Rule of an annotation of what could not be checked, which is no pass."""

CellValue = str | float | int | None


class CellLink(str):
    """A cell's text with a link in HTML pages; plain text in every other format."""

    address: str

    def __new__(cls, text: str, address: str) -> CellLink:
        """``address`` is relative to the page."""
        made = super().__new__(cls, text)
        made.address = address
        return made


class Tone(StrEnum):
    """How a verdict is shown: a failure, undecided, an improvement, or unchanged."""

    BAD = "bad"
    OPEN = "open"
    GOOD = "good"
    SAME = "same"


_TONES: Mapping[str, Tone] = {
    **dict.fromkeys(("", *(verdict for verdict in Verdict if verdict not in FAILING)), Tone.SAME),
    **dict.fromkeys((*UNDECIDED, Verdict.UNCONFIRMED), Tone.OPEN),
    **dict.fromkeys(("LOST", "UNFIT", "UNDECIDED"), Tone.OPEN),  # of a GPU of a fleet
    **dict.fromkeys(("OK", RIGHT), Tone.SAME),
    RAN: Tone.OPEN,
    **dict.fromkeys((Verdict.FASTER, Verdict.NEW), Tone.GOOD),
}


def tone(verdict: str) -> Tone:
    """The tone of a verdict; BAD for an unknown one."""
    return _TONES.get(verdict, Tone.BAD)


@dataclass(frozen=True, slots=True)
class Row:
    """One case, kernel, GPU or run, and its result.

    ``change`` is a phrase, ``1.22x slower``. ``details`` are further lines after the reason. ``cells`` are all known
    values by column; CSV has every one. ``group`` (a case's family) filters rows. ``address`` is that of the row's own
    page, ``picture`` its own SVG.
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
    """A column of the rows: the name of its cells, its heading, and the function that formats a cell.

    ``brief``: it is also in Markdown tables, which have little room.
    """

    name: str
    heading: str
    write: Callable[[Any], str] = str
    brief: bool = False

    def text(self, row: Row) -> str:
        """The row's cell as text; empty without a value."""
        value = row.cells.get(self.name)
        return "" if value is None or value != value else self.write(value)  # noqa: PLR0124  (NaN)


@dataclass(frozen=True, slots=True)
class Table:
    """A further table; None is an empty cell. ``folded``: collapsed in documents, not on a terminal."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[CellValue]]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG with a title; ``text`` says in one sentence what the title does not.

    A ``narrow`` one fits the screen of a phone. ``address`` is that of the page about it.
    """

    title: str
    text: str
    svg: str
    narrow: bool = False
    address: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A collapsible part of a page, such as that of a family: pictures, tables, and sentences below them."""

    title: str
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    sentences: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Annotation:
    """A finding at a line of a file, as code hosts and editors show it.

    ``rule`` is its kind, ``shared race`` or ``SLOWER``, which ``peakgate help`` explains. ``path`` is absolute, or
    relative to the top of the repository; without a name, the project's settings stand for an unknown place.
    """

    rule: str
    message: str
    path: Path
    line: int = 1
    tone: Tone = Tone.BAD


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one invocation of a command.

    ``about`` is the request, name and value. ``overall`` are judgements on all rows together. ``rows`` are sorted worst
    first; ``columns`` are the cells that tables show. ``sentences`` are other findings or what to do next, and may have
    several lines. ``fields`` are those of the JSON document besides schema, command, verdict and exit code. ``unit`` is
    the noun for a row, ``taken`` the time of measurement. ``totals`` are counts by verdict if ``rows`` are not all.
    ``legend`` names the lines of pictures in the order of their colours. ``qualified`` is shown after the verdict.
    ``sections`` are for HTML pages only.
    ``next`` is the one command that helps now, if one does. ``annotations`` are the findings that have a place.
    ``entries`` are those of ``waivers.toml`` that would accept the findings, to be filled in.
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
    next: str = ""
    annotations: Sequence[Annotation] = ()
    entries: Sequence[str] = ()

    @property
    def headline(self) -> str:
        """The verdict and its qualification: ``PASS, 2 regressions open``."""
        return ", ".join(filter(None, (self.verdict, self.qualified)))

    @property
    def worst(self) -> Row | None:
        """The first row, if it fails, is undecided or has become better; rows are sorted worst first."""
        first = self.rows[0] if self.rows else None
        shown = first and (first.tone in {Tone.BAD, Tone.OPEN} or (first.tone is Tone.GOOD and first.change))
        return first if shown else None

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of rows by verdict, in the order of the rows, without those that have none; or ``totals``."""
        return self.totals or Counter(row.verdict for row in self.rows if row.verdict)

    @property
    def counts_text(self) -> str:
        """``1 SLOWER, 76 SAME``."""
        return ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items())


def not_checked(command: str, reason: str, path: Path = Path()) -> Report:
    """The report of a command that could check nothing; ``path`` is that of its annotation."""
    said = f"{NOT_CHECKED}: {reason}"
    open_one = Annotation(NOT_CHECKED, said, path, tone=Tone.OPEN)
    return Report(command, ExitCode.UNDECIDED, sentences=(said,), fields={"reason": reason}, annotations=(open_one,))


def head(command: str, exit_code: int, verdict: str = "") -> dict[str, Any]:
    """The first fields of every JSON document: schema, command, verdict (if any), exit code."""
    judged = {"verdict": verdict} if verdict else {}
    return {"schema": SCHEMA, "command": command, **judged, "exit_code": int(exit_code)}


def document(report: Report) -> dict[str, Any]:
    """The report's JSON document: its head and the command's fields."""
    return {**head(report.command, report.exit_code, report.verdict), **report.fields}


def add_json_option(parser: ArgumentParser) -> None:
    """Add ``--json`` to a verb's options; ``cli`` implements it."""
    parser.add_argument(
        JSON_OPTION,
        action="store_true",
        help="print one JSON object on standard output, all else on standard error; see `peakgate help programs`",
    )


def write_json(report: Report, path: Path) -> None:
    """Write the document atomically."""
    write_whole(path, as_json(document(report)))


def clear_verdict(path: Path) -> None:
    """Remove what an earlier command left, which could be taken for that of a command that crashes."""
    for each in (path, path.with_suffix(SARIF), path.with_suffix(ENTRIES)):
        remove_output(each)


def write_verdict(report: Report, path: Path) -> None:
    """Write the document with the date, for callers that do not see the exit code."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    write_whole(path, as_json({**document(report), "date": date}))
