"""``peakgate show``: a page of one run, or with ``--all`` a folder of pages of all runs of a project."""

from __future__ import annotations

from collections.abc import Sequence

from peakgate.base import progress
from peakgate.runfile.options import FORMS, READING, add_out, add_run, add_runs, run_name, verb_parser


def main(verb: str, arguments: Sequence[str]) -> int:
    """Write the page, or the pages, and return the exit code."""
    parser = verb_parser(
        verb,
        f"Write a page of RUN: {FORMS}. With --all, write the pages of all saved runs into OUT/site, which need no "
        "server: an index, the history of each GPU model, and a page for each family, run, case and commit. A second "
        "call writes only the runs that are new. `show` does not judge.",
        "exit codes: 0 written, 2 bad input",
    )
    add_run(parser, "wanted", metavar="RUN", nargs="?", help="one saved session")
    parser.add_argument("--all", action="store_true", help="write the pages of all saved runs")
    add_runs(parser)
    add_out(parser)
    options = parser.parse_args(arguments)
    if options.all == (options.wanted is not None):
        parser.error("expected a RUN or --all")
    if options.wanted is not None:
        run_name(options.wanted)
    with progress.shown(READING):  # pandas takes a second to import: after the arguments are known to be right
        from peakgate.pages import show, site  # noqa: PLC0415
        from peakgate.runfile.find import Archive  # noqa: PLC0415
    archive = Archive(options.runs)
    if options.all:
        return site.write(archive, options.out)
    return show.write(options.wanted, archive, options.out)
