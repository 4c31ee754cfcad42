"""A report on a terminal: the answer, what was asked for, what was found, worst first, and where it was written.

When the reader closes the pipe, files and exit code stay the same.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from peakgate.base.formatting import counted, one_line
from peakgate.base.report import Column, Report, Row, Table, Tone
from peakgate.base.streams import print_to_nobody
from peakgate.base.verdict import UNDECIDED, Verdict

MOST_ALIKE, MOST_LISTED = 5, 20
VERDICT_WIDTH = max(len(verdict) for verdict in Verdict) + 2
CHANGE_WIDTH = len("10.00x slower") + 2
COUNTED_WHERE_ALIKE = UNDECIDED | {Verdict.NEW}
STYLES = {Tone.BAD: "bold red", Tone.OPEN: "yellow", Tone.GOOD: "green", Tone.SAME: "green"}


class VerdictConsole(Console):
    """A console without number colours that goes silent when the pipe is closed, where rich would exit with 1.

    After ``peakgate history | head``, 1 would mean a regression, and the reports would not be written.
    """

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        print_to_nobody(sys.stdout)


def show(report: Report, console: Console | None = None, *, everything: bool = False, most: int | None = None) -> None:
    """Print the report but for its last line: of the rows those that changed, unless ``everything``.

    Of long lists the first ``most`` rows.
    """
    console = console or VerdictConsole()
    if report.verdict:
        answer(report, console)
    width = max((len(name) for name, _ in report.about), default=0)
    for name, value in report.about:
        line(console, f"{name:<{width}}  {value}")
    listed = [row for row in report.rows if everything or row.tone is not Tone.SAME or not row.verdict]
    if listed and report.about:
        console.print()
    columns = [column for column in report.columns if column.brief]
    show_rows(console, listed[:most], columns, everything=everything)
    if most is not None and (more := len(listed) - most) > 0:
        line(console, f"and {more} more; the files have them")
    if report.about and (listed or report.overall or report.sentences):
        console.print()
    for row in report.overall:
        text = Text(f"{row.name}: ").append_text(verdict_text(row.verdict))
        console.print(text.append(f", {one_line(row.reason)}"), soft_wrap=True)
    for sentence in report.sentences:
        for each in sentence.splitlines():
            line(console, each)
    for table in report.tables:
        if not table.folded:
            _table(console, table, everything=everything)
    if report.notes and (listed or report.about):
        console.print()
    for note in report.notes:
        line(console, f"note: {note}", "dim")


def answer(report: Report, console: Console | None = None) -> None:
    """The verdict and the counts; without a verdict what stands in its place."""
    text = Text(one_line(report.qualified or report.counts_text))
    if report.verdict:
        text = verdict_text(report.verdict).append(report.headline.removeprefix(report.verdict))
        text.append(f": {one_line(report.counts_text)}" if report.counts else "")
    (console or VerdictConsole()).print(text, soft_wrap=True)


def last_line(report: Report, console: Console | None = None, written: Sequence[Path] = ()) -> None:
    """Where the report was written, and the command that helps next."""
    console = console or VerdictConsole()
    if written:
        line(console, f"written: {', '.join(map(str, written))}")
    if report.next:
        line(console, f"next: {report.next}")


def show_rows(
    console: Console, rows: Sequence[Row], columns: Sequence[Column] = (), *, everything: bool = True
) -> None:
    """Print rows: verdict, change and name, below them cells, details and reason; one without a verdict in one line.

    More than MOST_ALIKE rows that are new or undecided for one reason are counted instead; of those for reasons of
    their own, unless ``everything``, MOST_LISTED are printed.
    """
    width = CHANGE_WIDTH if any(row.change for row in rows) else 0
    alike: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        alike.setdefault(
            (row.verdict, row.reason) if row.verdict in COUNTED_WHERE_ALIKE else (row.name, row.reason), []
        ).append(row)
    room = len(rows) if everything else MOST_LISTED
    left: list[Row] = []
    for same in alike.values():
        if len(same) > MOST_ALIKE:
            head = verdict_text(same[0].verdict, VERDICT_WIDTH)
            console.print(head.append(f"{len(same)} cases, first {one_line(same[0].name)}"), soft_wrap=True)
            line(console, f"    {same[0].reason}", "dim")
            continue
        for row in same:
            if row.verdict in COUNTED_WHERE_ALIKE:
                room -= 1
                if room < 0:
                    left.append(row)
                    continue
            _row(console, row, columns, width, decides=everything or row.verdict not in COUNTED_WHERE_ALIKE)
    if left:
        verdicts = ", ".join(dict.fromkeys(row.verdict for row in left))
        line(console, f"and {counted(len(left), 'more case')}, {verdicts}; the files have them")


def line(console: Console, text: str, style: str = "") -> None:
    """Print text that may come from a file as one line, however long."""
    console.print(Text(one_line(text), style), soft_wrap=True)


def verdict_text(verdict: str, width: int = 0) -> Text:
    """The verdict in its colour."""
    style = "yellow" if verdict == Verdict.NO_FLOOR else STYLES[Row("", verdict).tone]
    return Text(f"{verdict:<{width}}", style)


def _row(console: Console, row: Row, columns: Sequence[Column], width: int, *, decides: bool) -> None:
    """The name stays whole on its line, however long, so that it can be searched for; the reason, last, is dim.

    Of a row that decides nothing one line: its figures are in the files.
    """
    if not row.verdict:
        line(console, f"{row.name}: {row.reason}")
        return
    head = verdict_text(row.verdict, VERDICT_WIDTH)
    head.append(f"{row.change:<{width}}").append(one_line(row.name), "bold")
    console.print(head if decides else head.append(f": {one_line(row.reason)}", "dim"), soft_wrap=True)
    if not decides:
        return
    cells = ", ".join(f"{column.heading} {text}" for column in columns if (text := column.text(row)))
    for detail in filter(None, (cells, *row.details)):
        line(console, f"    {detail}")
    if row.reason:
        line(console, f"    {row.reason}", "dim")


def _table(console: Console, table: Table, *, everything: bool) -> None:
    """Columns side by side, as wide as their widest cell; of a long table the first rows."""
    most = len(table.rows) if everything else MOST_LISTED
    shown = [["" if cell is None else one_line(str(cell)) for cell in row] for row in table.rows[:most]]
    console.print()
    line(console, f"{table.title} ({len(table.rows)})" if len(table.rows) > most else table.title, "bold")
    widths = [max(map(len, column)) for column in zip(table.headings, *shown, strict=True)]
    for cells, style in ((table.headings, "dim"), *((row, "") for row in shown)):
        padded = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        line(console, f"  {padded.rstrip()}", style)
    if (more := len(table.rows) - most) > 0:
        line(console, f"  and {counted(more, 'row')} more: see the files", "dim")
