"""``peakgate show``: a page of one run, as it was judged when it was taken."""

from __future__ import annotations

from collections.abc import Sequence

from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.reports.options import add_out, add_runs, verb_parser
from peakgate.reports.render import html
from peakgate.reports.render.console import say
from peakgate.reports.render.page import of_run
from peakgate.reports.runs.find import FORMS, Archive, find_history, find_side
from peakgate.verdict import ExitCode


def main(verb: str, arguments: Sequence[str]) -> int:
    """Write the page and return the exit code."""
    parser = verb_parser(
        verb, f"Write a page of RUN: {FORMS}. It does not judge.", "exit codes: 0 written, 2 bad input"
    )
    parser.add_argument("wanted", metavar="RUN")
    add_runs(parser)
    add_out(parser)
    options = parser.parse_args(arguments)

    archive = Archive(options.runs)
    side = find_side(options.wanted, archive)
    if len(side.runs) > 1:
        raise PeakgateError(f"{options.wanted}: {len(side.runs)} sessions, expected one; name its file")
    page = of_run(side.runs[0], archive.read(find_history(archive, [side])))
    write_whole(options.out / "show.html", html.render(page))
    counts = ", ".join(f"{count} {verdict}" for verdict, count in page.counts.items())
    say(f"{counts}: {page.verdict}; {options.out / 'show.html'}\n")
    return ExitCode.OK
