"""The options of ``peakgate bench`` that are not pytest's."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

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
        description="Check every kernel of the project against its reference, time it and compare it with its floor. "
        "After a case that crashes or does not end, the others are measured in a fresh process. -k EXPRESSION: "
        f"{MEANING}. Other options are pytest's and pytest-benchmark's: `--collect-only`, `--benchmark-json FILE`, "
        "`--benchmark-storage FOLDER`, ...",
        epilog="exit codes: 0 pass, 1 regression, 2 bad input, 3 could not decide, 130 interrupted",
        allow_abbrev=False,
    )
    add_options(made.add_argument, "--")
    for theirs in ("--benchmark-json", "--benchmark-storage"):  # pytest-benchmark's, whose files we move into place
        made.add_argument(theirs, help=argparse.SUPPRESS)
    made.add_argument(
        "--resume",
        action="store_true",
        help="continue an interrupted run of the same tree, Peakgate, GPU and driver (not with --strict-gate)",
    )
    made.add_argument(
        "--counters",
        action="store_true",
        help="then profile each kernel case once by ncu and save its hardware counters in the run file",
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
