"""``peakgate bench``: one run of a project's kernels. What is not an option of ours goes to pytest."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from peakgate.project import config
from peakgate.run import benchmark_tests
from peakgate.verdict import ExitCode

KERNELS = Path(__file__).with_name("bench_kernels.py")
SETTINGS = Path(__file__).with_name("bench.toml")
"""pytest's settings for our own tests: a stranger's addopts are none of ours."""

NOTHING_SELECTED = (
    "no case was selected: -k takes parts of case ids, --collect-only lists them "
    "(the emulator has small sizes of its own)\n"
)

CRASHED = os.EX_SOFTWARE
"""A defect of this tool, not of what it measured: none of the four verdicts."""

_FROM_PYTEST = {
    pytest.ExitCode.INTERRUPTED: ExitCode.INTERRUPTED,
    pytest.ExitCode.USAGE_ERROR: ExitCode.BAD_INPUT,
    pytest.ExitCode.NO_TESTS_COLLECTED: ExitCode.BAD_INPUT,
}


class _Crash:
    """Notes a crash of pytest itself, whose exit status is the number of our UNDECIDED."""

    happened = False

    def pytest_internalerror(self) -> None:
        self.happened = True


def main(verb: str, arguments: Sequence[str]) -> int:  # noqa: ARG001  (one verb)
    """Run the kernel benchmarks; 0 pass, 1 regression, 2 bad input, 3 could not decide."""
    ours, theirs = _parser().parse_known_args(arguments)
    project = config.required()
    crash = _Crash()
    benchmark_tests.prepend(project)
    own = [*pytest_arguments(ours, project.root), *benchmark_tests.pytest_arguments(project)]
    status = pytest.main([*own, *theirs], plugins=[crash])
    if crash.happened:
        return CRASHED
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        sys.stderr.write(NOTHING_SELECTED)
    return int(_FROM_PYTEST.get(status, status))  # type: ignore[call-overload]


def pytest_arguments(ours: argparse.Namespace, root: Path) -> list[str]:
    """What pytest is started with: our tests, our plug-ins and no others, our options under their long names."""
    fixed = [str(KERNELS), "-c", str(SETTINGS), f"--rootdir={root}", "--disable-plugin-autoload"]
    fixed += ["-p", "peakgate.run.plugin", "-p", "benchmark", "-p", "no:cacheprovider", "--peakgate"]
    fixed += ["--benchmark-autosave", "--benchmark-quiet", "-q", "--no-header"]
    named = {name: value for name, value in vars(ours).items() if value is not None and name != "strict"}
    return [*fixed, *(f"--peakgate-{name.replace('_', '-')}={value}" for name, value in named.items())] + (
        ["--peakgate-strict"] if ours.strict else []
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="peakgate bench",
        description="Prove, time and gate every kernel of the project on the device at hand. Other options are "
        "pytest's and pytest-benchmark's: -k EXPRESSION, --collect-only, --benchmark-json=FILE, ...",
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
    parser.add_argument("--baselines-from", metavar="REF", help="take the floors from this commit, a change's base say")
    parser.add_argument("--cases", help="a file of case ids, one per line: run these, of any tier")
    parser.add_argument("--commit", help="the commit measured, where git cannot know it")
    parser.add_argument("--out", help="folder for the verdict (default: the project's)")
    return parser
