"""``peakgate bench``: whether the run is supervised. Options that it does not know go to pytest."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Sequence

from peakgate.core import config
from peakgate.core.config import Project
from peakgate.run.ab_process import Mode
from peakgate.run.bench_options import parser

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
    ours, theirs = parser().parse_known_args(arguments)
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
