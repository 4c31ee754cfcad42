"""The pytest plug-in: inert in any test run but that of ``peakgate bench``, and cheap to load.

Every option carries ``peakgate`` in its name; ``peakgate bench`` translates its own short ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that ``peakgate bench`` passes on."""
    group = parser.getgroup("peakgate")
    group.addoption("--peakgate", action="store_true", help="measure the project's kernels; see `peakgate bench`")
    group.addoption(
        "--peakgate-device", default="auto", help="auto (a GPU if one answers, else cpu), cpu, gpu or gpu:N"
    )
    group.addoption("--peakgate-tier", default="gate", choices=("gate", "full"))
    group.addoption("--peakgate-strict", action="store_true")
    group.addoption("--peakgate-baselines", type=Path)
    group.addoption("--peakgate-baselines-from")
    group.addoption("--peakgate-cases", type=Path)
    group.addoption("--peakgate-commit")
    group.addoption("--peakgate-out", type=Path)
    group.addoption("--peakgate-launch-limit", type=float)
    group.addoption("--peakgate-link", type=int, help="the supervisor's: the pipe for events")
    group.addoption("--peakgate-journal", type=Path, help="the supervisor's: cases to take over")
    group.addoption("--peakgate-no-prebuild", action="store_true", help="the supervisor's: build each case by itself")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take part in the run where ``peakgate bench`` asks for it."""
    if config.option.peakgate:
        from peakgate.run.kernel_run import KernelRun  # noqa: PLC0415  (a stranger's test run must not pay for it)

        KernelRun.begin(config)
