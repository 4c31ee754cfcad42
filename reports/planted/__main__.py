"""Show what the rule of ``ab`` and other tools' rules attain on the processes of a planted-truth campaign.

``python -m reports.planted [FOLDER] [--write]``
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from peakgate.common.errors import PeakgateError, refused
from peakgate.common.files import write_whole
from peakgate.reports.ladder.markers import fill, read_document
from peakgate.reports.planted.about import read_about
from peakgate.reports.planted.findings import findings
from peakgate.reports.planted.found import read_found
from peakgate.reports.planted.page import BLOCKS
from peakgate.reports.planted.processes import Experiment, read
from peakgate.reports.render.console import say
from peakgate.verdict import ExitCode

FOLDER = Path("baselines/nvidia-h200/lab/planted")
PAGE = Path("reports/planted/README.md")
GATES = 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page, or write it, and return the exit code; 2 where there is no campaign or no page."""
    parser = argparse.ArgumentParser(prog="python -m reports.planted", description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help=f"of a campaign (default: {FOLDER})")
    parser.add_argument("--page", type=Path, default=PAGE, help=f"with the blocks to fill (default: {PAGE})")
    parser.add_argument("--write", action="store_true", help="write the page instead of printing it")
    parser.add_argument("--gates", type=_count, default=GATES, metavar="N", help=f"to draw (default: {GATES})")
    options = parser.parse_args(arguments)
    try:
        text = _page(options.folder, options.page, options.gates)
        if options.write:
            write_whole(options.page, text)
    except PeakgateError as error:
        return refused(error)
    say(f"written: {options.page}\n" if options.write else text)
    return ExitCode.OK


def _page(folder: Path, page: Path, gates: int) -> str:
    about = read_about(folder)
    same, steps = (read(folder, experiment) for experiment in (Experiment.SAME, Experiment.STEPS))
    document = read_document(page)
    found = findings(about, same, steps, read_found(folder), gates)
    return fill(document, page, lambda name: BLOCKS[name](found), BLOCKS)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
