"""Every written output of a report, by file name, and the summary of a GitHub Actions job."""

from __future__ import annotations

import csv as comma_separated
import io
import math
import os
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from peakgate.core import terminal
from peakgate.core.errors import Code, PeakgateError
from peakgate.core.files import write_whole
from peakgate.core.report import CellValue, Report, Row, document
from peakgate.core.text import as_json, cell, one_line
from peakgate.core.verdict import REGRESSIONS, UNDECIDED, ExitCode, Verdict
from peakgate.reports.write.markdown import markdown

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
MOST_SUMMARY_BYTES = 1_000_000
"""GitHub drops a step's summary of more than 1 MiB whole, with everything in it."""

FORMATS = ("md", "csv", "json", "junit.xml", "html")
SUITE = "peakgate"


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
        from peakgate.reports.write.page import page  # noqa: PLC0415  # a fifth of a second that --no-html saves

        return page(report)
    if name == "json":
        return as_json(document(report))
    return {"md": markdown, "csv": csv, "junit.xml": junit}[name](report)


def summarize(report: Report) -> None:
    """Append the report to the summary of the GitHub Actions job that this runs in, if it runs in one."""
    if path := os.environ.get(SUMMARY_VARIABLE):
        append_summary(report, Path(path))


def append_summary(report: Report, path: Path) -> None:
    """Append to the summary at ``path``, no more than still fits beside what the step has already put there."""
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
