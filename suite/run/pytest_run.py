"""The process that measures: pytest with our tests, our plug-ins and no others.

The supervisor's child (``run.child``) calls it; without a supervisor (the processes of an A/B) ``peakgate bench`` does,
in its own process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from peakgate.project import config
from peakgate.verdict import ExitCode

KERNELS = Path(__file__).with_name("bench_kernels.py")
SETTINGS = Path(__file__).with_name("bench.toml")
"""pytest's settings for our own tests: a stranger's addopts are none of ours."""

NOTHING_SELECTED = (
    "no case was selected: -k takes parts of case ids, --collect-only lists them "
    "(the emulator has small sizes of its own)\n"
)

ALL_SKIPPED = "every case was skipped, for the reason above; nothing was measured\n"

DEFECT = os.EX_SOFTWARE
"""A defect of this tool, not of what it measured: none of the four verdicts."""

_FROM_PYTEST = {
    pytest.ExitCode.INTERRUPTED: ExitCode.INTERRUPTED,
    pytest.ExitCode.USAGE_ERROR: ExitCode.BAD_INPUT,
    pytest.ExitCode.NO_TESTS_COLLECTED: ExitCode.BAD_INPUT,
}


class _Watch:
    """Notes a crash of pytest itself, whose exit status is that of our UNDECIDED, and skipped modules and cases."""

    crashed = skipped = False

    def pytest_internalerror(self) -> None:
        self.crashed = True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.skipped = self.skipped or report.skipped

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.skipped = self.skipped or report.skipped


def fixed_arguments(root: Path) -> list[str]:
    """What pytest is started with in every run of a project."""
    fixed = [str(KERNELS), "-c", str(SETTINGS), f"--rootdir={root}", "--disable-plugin-autoload"]
    fixed += ["-p", "peakgate.run.plugin", "-p", "benchmark", "-p", "no:cacheprovider"]
    fixed += ["-p", "no:faulthandler", "--peakgate"]
    project = config.find(root)
    if project is not None and project.benchmarks:
        from peakgate.run import benchmark_tests  # noqa: PLC0415  (families alone do without)

        benchmark_tests.prepend(project)
        fixed += benchmark_tests.pytest_arguments(project)
    return [*fixed, "--benchmark-autosave", "--benchmark-quiet", "-q", "--no-header"]


def measure(arguments: Sequence[str]) -> int:
    """Run pytest in this process; its exit code in our terms."""
    watch = _Watch()
    status = pytest.main(list(arguments), plugins=[watch])
    if watch.crashed:
        return DEFECT
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        sys.stderr.write(ALL_SKIPPED if watch.skipped else NOTHING_SELECTED)
    return int(_FROM_PYTEST.get(status, status))  # type: ignore[call-overload]
