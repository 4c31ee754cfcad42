"""pytest-benchmark's ``machine_info``: complete, or minimal for an A/B and the emulator."""

from __future__ import annotations

import platform
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest

from peakgate.base.processes import SAFE_PATH, variables


class DescribedMachine:
    """The complete ``machine_info``, made in a thread: pytest-benchmark's CPU probe takes a second."""

    def __init__(self) -> None:
        self._described: Future[dict[str, Any]] | None = None

    def begin(self, pytest_config: pytest.Config) -> None:
        """Begin to describe the machine."""
        named = pytest_config.pluginmanager.subset_hook_caller("pytest_benchmark_generate_machine_info", [self])

        def described() -> dict[str, Any]:
            # The CPU probe is a Python process: it must not import modules of the project's folder.
            with variables(**{SAFE_PATH: "1"}):
                found: dict[str, Any] = named(config=pytest_config)
            return found

        pool = ThreadPoolExecutor(max_workers=1)
        self._described = pool.submit(described)
        pool.shutdown(wait=False)

    def wait(self) -> None:
        """Wait until it is described; a failure is reported where the run is saved."""
        if self._described is not None:
            wait([self._described])

    @pytest.hookimpl(tryfirst=True)
    def pytest_benchmark_generate_machine_info(self) -> dict[str, Any] | None:
        """The description; None if it was not begun, so that another plug-in answers."""
        return self._described.result() if self._described else None


class BriefMachine(DescribedMachine):
    """Minimal ``machine_info``, without the CPU probe."""

    def begin(self, pytest_config: pytest.Config) -> None:
        """There is nothing to prepare."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_benchmark_generate_machine_info(self) -> dict[str, Any]:
        return {"node": platform.node(), "machine": platform.machine(), "system": platform.system()}
