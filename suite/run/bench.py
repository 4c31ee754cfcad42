"""``peakgate bench``: its options, and whether the run is supervised. Options that it does not know go to pytest."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Sequence
from pathlib import Path

from peakgate.core import config
from peakgate.core.config import Project
from peakgate.core.report import add_json_option
from peakgate.core.selection import MEANING
from peakgate.run.ab_process import Mode
from peakgate.run.lock import add_lock_options, seconds

FLAGS = ("strict", "nonfinite", "determinism", "energy")
PASSED_ON = (
    "device",
    "tier",
    "baselines",
    "baselines_from",
    "cases",
    "seed",
    "commit",
    "out",
    "launch_limit",
    "other_builds",
)
INSPECTING = frozenset({"--collect-only", "--co", "-h", "--help", "--version", "-V", "--pdb", "--trace", "--fixtures"})
"""Options of pytest under which nothing is measured, or a person stops the clock."""


def main(verb: str, arguments: Sequence[str]) -> int:  # noqa: ARG001  (one verb)
    """Run the kernel benchmarks; 0 pass, 1 regression, 2 bad input, 3 could not decide."""
    ours, theirs = _parser().parse_known_args(arguments)
    project = config.required()
    mode = Mode.of_environment()
    if mode is not Mode.WHOLE or INSPECTING & set(theirs):
        return _unsupervised(ours, [f"--peakgate-mode={mode}", *theirs], project)
    if ours.seed is None:
        ours.seed = secrets.randbits(32)  # of every process of the run
    from peakgate.run import supervise  # noqa: PLC0415  (an A/B's processes do not need it)

    return supervise.run(ours, [*_own(ours), *theirs], project)


def _unsupervised(ours: argparse.Namespace, theirs: Sequence[str], project: Project) -> int:
    from peakgate.run import process  # noqa: PLC0415  (a supervisor does without)

    named = {"--benchmark-json": ours.benchmark_json, "--benchmark-storage": ours.benchmark_storage}
    saving = [f"{option}={value}" for option, value in named.items() if value is not None]
    return process.measure([*process.fixed_arguments(project.root), *_own(ours), *saving, *theirs])


def _own(ours: argparse.Namespace) -> list[str]:
    """Our options under the long names that the plug-in gives them."""
    named = {name: getattr(ours, name) for name in PASSED_ON if getattr(ours, name) is not None}
    given = [f"--peakgate-{name.replace('_', '-')}={value}" for name, value in named.items()]
    return given + [f"--peakgate-{name}" for name in FLAGS if getattr(ours, name)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="peakgate bench",
        description="Prove, time and gate every kernel of the project on the device at hand. A case that crashes or "
        f"does not end costs itself alone: the others are measured in a fresh process. -k EXPRESSION: {MEANING}. Other "
        "options are pytest's and pytest-benchmark's: --collect-only, ...",
        epilog="exit codes: 0 pass, 1 regression, 2 bad input, 3 could not decide, 130 interrupted",
        allow_abbrev=False,
    )
    parser.add_argument("--device", help="auto (a GPU if one answers, else cpu; the default), cpu, gpu or gpu:N")
    parser.add_argument("--tier", help="gate: every stage, few shapes (the default); full: all sizes and blocks")
    parser.add_argument(
        "--strict-gate",
        dest="strict",
        action="store_true",
        help="exit 3 where a case has no floor, and before measuring a doubtful GPU",
    )
    parser.add_argument("--baselines", help="folder with <gpu>/floors.toml (default: the project's)")
    parser.add_argument(
        "--baselines-from",
        metavar="REF",
        help="judge by the floors of this commit, such as a change's base, and the cases that it knows by its work, "
        "tolerance, reference and edge-size problems",
    )
    parser.add_argument("--cases", help="a file of case ids, one per line: run these, of any tier")
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="draw what launches find in their buffers, and places in memory, as the run did whose file has this seed",
    )
    parser.add_argument("--nonfinite", action="store_true", help="a kernel whose outputs hold NaN or infinity is wrong")
    parser.add_argument(
        "--determinism",
        action="store_true",
        help="launch each kernel again on the same data and report where bits differ",
    )
    parser.add_argument(
        "--energy",
        action="store_true",
        help="also measure joules per launch, in loops of launches back to back: some seconds per case",
    )
    parser.add_argument("--commit", help="the commit measured, where git cannot know it")
    parser.add_argument("--out", help="folder for the verdict (default: the project's)")
    parser.add_argument("--benchmark-json", type=Path, metavar="FILE", help="write the run, samples included, to FILE")
    parser.add_argument(
        "--benchmark-storage", metavar="FOLDER", help="where runs are saved (default: .benchmarks/<gpu>)"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue an interrupted run of the same tree, harness, GPU and driver (never under --strict-gate)",
    )
    parser.add_argument(
        "--launch-limit",
        type=seconds,
        metavar="SECONDS",
        help="a launch that takes longer is a TIMEOUT (default: from its work, the peak and its floor)",
    )
    parser.add_argument("--other-builds", help=argparse.SUPPRESS)  # of `ab`: builds to sample in turns with the cases
    add_json_option(parser)
    add_lock_options(parser)
    return parser
