"""``peakgate ladder``: check that the tables and pictures of kernels/ show a run, or write them."""

from __future__ import annotations

from collections.abc import Sequence

from peakgate.reports.ladder.blocks import changes
from peakgate.reports.options import add_runs, verb_parser
from peakgate.reports.render.console import say
from peakgate.reports.runs.find import FORMS, Archive
from peakgate.verdict import ExitCode


def main(verb: str, arguments: Sequence[str]) -> int:
    """Check or write, and return 1 if something is out of date and was not written."""
    parser = verb_parser(
        verb,
        f"Check the tables and pictures of kernels/ against RUN: {FORMS}. By default the run they name.",
        "exit codes: 0 they show it, 1 they do not, 2 bad input",
    )
    parser.add_argument("wanted", metavar="RUN", nargs="?")
    add_runs(parser)
    parser.add_argument("--write", action="store_true", help="write them")
    parser.add_argument("--bench", metavar="RUN", help="the run whose terminal output README shows")
    options = parser.parse_args(arguments)

    found = changes(options.wanted, Archive(options.runs), write=options.write, bench=options.bench)
    if options.write:
        say("".join(f"written: {change.path}\n" for change in found))
    else:
        say("".join(change.difference for change in found))
    if not found:
        say("the ladder shows the run\n")
    return ExitCode.REGRESSION if found and not options.write else ExitCode.OK
