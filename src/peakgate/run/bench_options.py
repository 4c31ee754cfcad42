"""The options of ``peakgate bench`` that are not pytest's."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.options import VerbParser, at_least, seconds_above_0
from peakgate.base.report import add_json_option
from peakgate.run.lock import add_lock_options
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
    made.add_argument(
        "--device",
        help="auto (a GPU if one answers, else cpu; the default), cpu, gpu or gpu:N; gpu:0,1 for cases on several GPUs",
    )
    made.add_argument("--tier", help="gate: every stage, few shapes (the default); full: all sizes and blocks")
    made.add_argument(
        "--strict-gate",
        dest="strict",
        action="store_true",
        help="exit 3 where a case has no floor, and before measuring a doubtful GPU",
    )
    made.add_argument("--baselines", help="folder with <gpu>/floors.toml (default: the project's)")
    made.add_argument(
        "--baselines-from",
        metavar="REF",
        help="judge by the floors of this commit, such as a change's base, and the cases that it knows by its work, "
        "tolerance, reference and edge-size problems",
    )
    made.add_argument("--cases", help="a file of case ids, one per line: run these, of any tier")
    made.add_argument(
        "--seed",
        type=at_least(0),
        metavar="N",
        help="draw what launches find in their buffers, and places in memory, as the run did whose file has this seed",
    )
    made.add_argument("--nonfinite", action="store_true", help="a kernel whose outputs hold NaN or infinity is wrong")
    made.add_argument(
        "--determinism",
        action="store_true",
        help="launch each kernel again on the same data and report where bits differ",
    )
    made.add_argument(
        "--energy",
        action="store_true",
        help="also measure joules per launch, in loops of launches back to back: some seconds per case",
    )
    made.add_argument("--commit", help="the commit measured, where git cannot know it")
    made.add_argument("--out", help="folder for the verdict (default: the project's)")
    made.add_argument("--benchmark-json", type=Path, metavar="FILE", help="write the run, samples included, to FILE")
    made.add_argument("--benchmark-storage", metavar="FOLDER", help="where runs are saved (default: .benchmarks/<gpu>)")
    made.add_argument(
        "--resume",
        action="store_true",
        help="continue an interrupted run of the same tree, harness, GPU and driver (never under --strict-gate)",
    )
    made.add_argument(
        "--launch-limit",
        type=seconds_above_0,
        metavar="SECONDS",
        help="a launch that takes longer is a TIMEOUT (default: from its work, the peak and its floor)",
    )
    made.add_argument("--other-builds", help=argparse.SUPPRESS)  # of `ab`: builds to sample in turns with the cases
    add_json_option(made)
    add_lock_options(made)
    return made


def refuse_contradictions(ours: argparse.Namespace, theirs: Sequence[str]) -> None:
    """PeakgateError for options, ours or pytest's, that a supervised run does not take together."""
    if ours.resume and ours.strict:
        raise PeakgateError(
            "--resume with --strict-gate: a gate measures everything itself; leave one of them out", Code.OPTION
        )
    if any(option.startswith("--benchmark-compare") for option in theirs):
        raise PeakgateError(
            "--benchmark-compare: not with `peakgate bench`; save the run, then `peakgate compare`", Code.OPTION
        )
