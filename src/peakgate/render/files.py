"""A report as files, Markdown, CSV, JSON, JUnit XML or a page, and as the summary of a GitHub Actions job."""

from __future__ import annotations

import csv as comma_separated
import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import write_whole
from peakgate.base.formatting import as_json, cell, one_line
from peakgate.base.report import CellValue, Column, Report, Row, Table, Tone, document
from peakgate.base.verdict import REGRESSIONS, UNDECIDED, ExitCode, Verdict
from peakgate.render import terminal
from peakgate.spec.recorded import ID_PATTERN

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
MOST_SUMMARY_BYTES = 1_000_000
"""GitHub drops a step's summary of more than 1 MiB whole, with everything in it."""

FORMATS = ("md", "csv", "json", "junit.xml", "html")
SUITE = "peakgate"

SPECIAL = frozenset("&<>\"'\\`*_[]#|~@$")
"""Characters that Markdown, HTML or GitHub (mentions, references, links) would interpret."""

SECTIONS = {Tone.BAD: "Failed", Tone.OPEN: "Undecided", Tone.GOOD: "Faster or new", Tone.SAME: "Passed"}
"""Titles of the rows; where room is short, the last is cut first."""


def write(report: Report, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write ``COMMAND.FORMAT`` for each of the formats; the files."""
    written = []
    for name in formats:
        path = folder / f"{report.command}.{name}"
        write_whole(path, text(report, name))
        written.append(path)
    return written


def deliver(
    report: Report, folder: Path, formats: Sequence[str], *, everything: bool = False, summary: bool = False
) -> ExitCode:
    """Print the report, write it, and print its last line; ``summary``: in the summary of a job too. The exit code."""
    terminal.show(report, everything=everything)
    written = write(report, folder, formats)
    if summary:
        summarize(report)
    terminal.last_line(report, written=written)
    return report.exit_code


def text(report: Report, name: str) -> str:
    """The report in one of the FORMATS."""
    if name == "html":
        from peakgate.render.page import page  # noqa: PLC0415  # a fifth of a second

        return page(report)
    if name == "json":
        return as_json(document(report))
    return {"md": markdown, "csv": csv, "junit.xml": junit}[name](report)


def summarize(report: Report) -> None:
    """Append the report to the summary of the GitHub Actions job that this runs in, if it runs in one.

    No more than still fits beside what the step has already put there.
    """
    if not (given := os.environ.get(SUMMARY_VARIABLE)):
        return
    path = Path(given)
    try:
        present = path.stat().st_size if path.exists() else 0
        added = markdown(report, most_bytes=MOST_SUMMARY_BYTES - present - 1)
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(f"{added}\n" if added else "")
    except OSError as error:
        raise PeakgateError(
            f"${SUMMARY_VARIABLE}: {path} cannot be written ({error.strerror}); unset it or name a file that can",
            Code.UNWRITABLE,
        ) from error


def markdown(report: Report, *, most_bytes: int | None = None) -> str:
    """The report for a pull request, what fails first, the unchanged folded away; texts from files are escaped.

    With ``most_bytes`` rows are left out until it fits: unchanged ones first, failed ones last, the mildest of each
    first; each section names how many it lacks.
    """
    lines = [f"# Peakgate {report.command}{': ' if report.headline else ''}{report.headline}", ""]
    lines += [f"{escape(report.counts_text)}.", ""] if report.counts else []
    lines += [f"- {escape(name)}: {escape(value)}" for name, value in report.about]
    lines += [f"- {escape(row.name)}: {escape(row.verdict)}, {escape(row.reason)}" for row in report.overall]
    lines += [f"- {_sentence(sentence)}" for sentence in report.sentences]
    lines += [f"- {_sentence(f'next: `{report.next}`')}"] if report.next else []
    lines += [f"- note: {escape(note)}" for note in report.notes]
    lines.append("")
    for found in report.tables:
        lines += folded(found) if found.folded else [f"## {escape(found.title)}", "", *table(found)]
    head = "\n".join([*lines, ""])
    columns = [column for column in report.columns if column.brief]
    changes, reasons = any(row.change for row in report.rows), any(row.reason for row in report.rows)
    names = [report.unit, *(["verdict"] if report.counts else []), *(["change"] if changes else [])]
    names += [*(column.heading for column in columns), *(["reason"] if reasons else [])]
    heading = [table_line(names), table_line(["---"] * len(names))]
    rows = {
        each: [table_line(_cells(row, columns, names)) for row in report.rows if row.tone is each] for each in SECTIONS
    }
    counts = {each: len(own) for each, own in rows.items()}
    if most_bytes is None:
        return head + _sections(rows, counts, heading)
    room = most_bytes - _bytes(head) - _bytes(_sections(dict.fromkeys(rows, ()), counts, heading))
    if room < 0:
        return head.encode(errors="replace")[: max(0, most_bytes)].decode(errors="ignore")
    excess = sum(_bytes(line) + 1 for own in rows.values() for line in own) - room
    for own in reversed(rows.values()):
        while excess > 0 and own:
            excess -= _bytes(own.pop()) + 1
    return head + _sections(rows, counts, heading)


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
    rows = (["" if value is None else escape(str(value)) for value in row] for row in found.rows)
    return [*head, *map(table_line, rows), ""]


def folded(found: Table) -> list[str]:
    """The lines of a table below its title, folded."""
    return [f"<details><summary>{escape(found.title)}</summary>", "", *table(found), "</details>", ""]


def table_line(cells: Iterable[str]) -> str:
    """A row of a table; cells are taken as they are."""
    return f"| {' | '.join(cells)} |"


def csv(report: Report) -> str:
    """All cells of the rows, numbers to 8 digits, empty where unknown."""
    stream = io.StringIO()
    writer = comma_separated.writer(stream, lineterminator="\n")
    names = list(dict.fromkeys(name for row in report.rows for name in row.cells))
    writer.writerow(names)
    writer.writerows([_csv_cell(row.cells.get(name)) for name in names] for row in report.rows)
    return stream.getvalue()


def _csv_cell(value: CellValue) -> object:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.8g}"
    return "" if value is None else cell(value)


def junit(report: Report) -> str:
    """Regressions are failures, what could not be decided is skipped, each with its reason.

    A case's ``time`` is its cell ``new_time_us``. Under the family ``peakgate`` stand the judgements on all rows.
    """
    suite = ElementTree.Element("testsuite", name=SUITE)
    for row in report.rows:
        case = _test_case(suite, row.group, row)
        time_us = row.cells.get("new_time_us")
        if isinstance(time_us, int | float) and not math.isnan(time_us):
            case.set("time", f"{time_us * 1e-6:.9f}")
    for row in report.overall:
        _test_case(suite, SUITE, row)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    if report.taken is not None:
        suite.set("timestamp", report.taken.isoformat(timespec="seconds"))
    root = ElementTree.Element("testsuites", name=SUITE)
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _test_case(suite: ElementTree.Element, family: str, row: Row) -> ElementTree.Element:
    """Characters that XML has no way to write are not printable either: ``one_line`` makes them spaces."""
    attributes = {"classname": one_line(f"{SUITE}.{family}"), "name": one_line(row.name)}
    case = ElementTree.SubElement(suite, "testcase", attributes)
    reason = one_line(f"{row.verdict}: {row.reason}")
    if row.verdict in REGRESSIONS:
        ElementTree.SubElement(case, "failure", {"type": row.verdict, "message": reason}).text = reason
    elif row.verdict in UNDECIDED or row.verdict == Verdict.NO_FLOOR:
        ElementTree.SubElement(case, "skipped", {"message": reason})
    return case
