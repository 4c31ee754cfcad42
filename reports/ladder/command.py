"""``python -m reports ladder``."""

from __future__ import annotations

import argparse
from typing import Any

from peakgate.reports.locate import FORMS, Archive, add_runs
from peakgate.reports.render.console import say
from peakgate.verdict import ExitCode


def add_commands(commands: Any) -> None:
    """Add ``ladder`` to the sub-commands."""
    showing = commands.add_parser(
        "ladder",
        help="check the tables and pictures of kernels/ against a run, or write them",
        description=f"Check the tables and pictures of kernels/ against RUN: {FORMS}. By default the run they name.",
        epilog="exit codes: 0 they show it, 1 they do not, 2 bad input",
    )
    showing.set_defaults(run=_ladder)
    showing.add_argument("wanted", metavar="RUN", nargs="?")
    add_runs(showing)
    showing.add_argument("--write", action="store_true", help="make them show it")
    showing.add_argument("--bench", metavar="RUN", help="the run whose terminal output README shows")


def _ladder(options: argparse.Namespace) -> ExitCode:
    from peakgate.reports.ladder.changes import changes  # noqa: PLC0415  # other commands need none of this

    found = changes(options.wanted, Archive(options.runs), write=options.write, bench=options.bench)
    if options.write:
        say("".join(f"written: {change.path}\n" for change in found))
    else:
        say("".join(change.difference for change in found))
    if not found:
        say("the ladder shows the run\n")
    return ExitCode.REGRESSION if found and not options.write else ExitCode.OK
