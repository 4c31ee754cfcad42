"""Options that ``check`` and ``inspect mutants`` share, and their verdict without a compiler."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from peakgate.base import config
from peakgate.base.errors import PeakgateError
from peakgate.base.options import VerbParser, at_least
from peakgate.base.report import not_checked
from peakgate.render import terminal
from peakgate.render.findings import leave_verdict
from peakgate.spec.selection import add_selection


def add_emulator_options(parser: VerbParser) -> None:
    """Add the selection of cases, the number of processes and the verdict's folder."""
    add_selection(parser, default="")
    jobs = os.cpu_count() or 1
    parser.add_argument(
        "--jobs", type=at_least(1), default=jobs, metavar="N", help="number of processes (default: one per core)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the verdict (default: the project's)")


def parse_emulator_options(parser: VerbParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of a verb that has these options."""
    chosen = parser.parse_args(arguments)
    chosen.out = chosen.out or config.near(config.current().out)
    return chosen


def leave_not_checked(verb: str, error: PeakgateError, path: Path) -> int:
    """Print why nothing could be checked, write the verdict to ``path``, and return its exit code."""
    left = not_checked(verb, str(error))
    terminal.show(left)
    return leave_verdict(left, path)
