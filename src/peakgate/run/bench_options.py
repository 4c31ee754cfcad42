"""The options of ``peakgate bench`` that are not pytest's."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.options import VerbParser
from peakgate.base.report import add_json_option
from peakgate.run.lock import add_lock_options
from peakgate.run.request import add_options
from peakgate.spec.selection import MEANING


def names() -> list[str]:
    """``--device`` and the others."""
    return re.findall(r"--[\w-]+", parser().format_usage())


def parser() -> argparse.ArgumentParser:
    """The parser of our own options."""
    made = VerbParser(
        prog="peakgate bench",
        description="Prove, time and gate every kernel of the project on the device at hand. A case that crashes or "
        f"does not end costs itself alone: the others are measured in a fresh process. -k EXPRESSION: {MEANING}. Other "
        "options are pytest's and pytest-benchmark's: --collect-only, ...",
        epilog="exit codes: 0 pass, 1 regression, 2 bad input, 3 could not decide, 130 interrupted",
        allow_abbrev=False,
    )
    add_options(made.add_argument, "--")
    made.add_argument("--benchmark-json", type=Path, metavar="FILE", help="write the run, samples included, to FILE")
    made.add_argument("--benchmark-storage", metavar="FOLDER", help="where runs are saved (default: .benchmarks/<gpu>)")
    made.add_argument(
        "--resume",
        action="store_true",
        help="continue an interrupted run of the same tree, harness, GPU and driver (never under --strict-gate)",
    )
    made.add_argument(
        "--counters",
        action="store_true",
        help="after the run profile each kernel case once by ncu; its hardware counters are in the run file",
    )
    add_json_option(made)
    add_lock_options(made)
    return made


def refuse_contradictions(ours: argparse.Namespace, theirs: Sequence[str]) -> None:
    """PeakgateError for options, ours or pytest's, that a supervised run does not take together."""
    if ours.resume and ours.strict_gate:
        raise PeakgateError(
            "--resume with --strict-gate: a gate measures everything itself; leave one of them out", Code.OPTION
        )
    if any(option.startswith("--benchmark-compare") for option in theirs):
        raise PeakgateError(
            "--benchmark-compare: not with `peakgate bench`; save the run, then `peakgate compare`", Code.OPTION
        )
