"""Options that ``check`` and ``inspect mutants`` share, and the verdict of either where no compiler is installed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from peakgate.base import config
from peakgate.base.errors import PeakgateError
from peakgate.base.options import VerbParser
from peakgate.base.report import Report, leave_verdict
from peakgate.base.verdict import ExitCode
from peakgate.inspect import emulate
from peakgate.render import terminal
from peakgate.spec.selection import add_selection


def add_emulator_options(parser: VerbParser) -> None:
    """Add the selection of cases, the orders of threads, the number of processes and the verdict's folder."""
    add_selection(parser, default="")
    parser.add_argument("--schedules", type=int, default=2, help="orders of threads: ascending, then shuffled (2)")
    parser.add_argument(
        "--seed", type=int, metavar="N", help="the one order of threads that a defect names, in place of --schedules"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("--out", type=Path, help="folder for the verdict (default: the project's)")


def parse_emulator_options(parser: VerbParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of a verb that has these options; ``orders`` are the numbers of the orders of threads."""
    chosen = parser.parse_args(arguments)
    if chosen.schedules < 1 or chosen.jobs < 1 or (chosen.seed or 0) < 0:
        parser.error("--schedules and --jobs are whole numbers from 1 on, --seed from 0 on")
    chosen.orders = emulate.schedules(chosen.schedules) if chosen.seed is None else (chosen.seed,)
    chosen.out = chosen.out or config.near(config.current().out)
    return chosen


def leave_not_checked(verb: str, error: PeakgateError, path: Path) -> int:
    """Print that nothing could be checked, write the verdict to ``path``, and return its exit code."""
    left = Report(verb, ExitCode.UNDECIDED, sentences=(f"not checked: {error}",), fields={"reason": str(error)})
    terminal.show(left)
    return leave_verdict(left, path)
